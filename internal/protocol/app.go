package protocol

import "time"

// App is the application beside a replica, as the replica knows it: what it may run, what it said it runs, and until
// when. Its owner alone uses it: Step changes it in place, since it may have ten thousand keys.
//
// The application calls, and each reply says what it may run, whole, and for how long. It keeps to three rules:
//
//   - A validity counts from the moment at which the call was sent. So a reply that comes late lengthens nothing.
//   - It starts a key only while the validity lasts, and has stopped everything when that is over.
//   - It acts on the reply to its newest call alone. When a reply names another session, it has first stopped
//     everything of the one before.
//
// So the replica knows: what a call does not list, and what the reply that it is based on no longer assigned, does not
// run and never will under that token. When the validity last given is over, nothing runs.
type App struct {
	session string // of the replica; empty: none
	id      string // the process that is listened to; empty: none
	ready   bool   // it says that it takes keys
	// seq numbers what replies say: it rises whenever the assigned or the stopping keys change, and never falls.
	seq  int64
	keys map[string]*appKey // by GROUP/NAME
	// Whether some keys may be assigned by no reply yet, assigned by one, or withdrawn. Else an event looks at none.
	fresh, given, withdrawn bool

	until appValidity // the longest that was given to id
	pause appValidity // in which it takes no keys, though it says so
	call  AppCall     // that is to be answered still; N 0: none
}

// appKey is a key that the application may run, or has to stop.
type appKey struct {
	token     int64
	withdrawn int64 // the first seq that no longer assigned it; 0: it is assigned
	given     bool  // a reply assigned it
}

// AppPause is the least time from when an application says that it takes no keys, after it did, until it takes some
// again. One that says now this and now that would have its keys moved, and noted, with each call.
const AppPause = 15 * time.Second

// appValidity is a time that was given: from when, and how long.
type appValidity struct {
	from Instant
	long time.Duration
}

// left is what is left of it, as those who wait for it must count.
func (v appValidity) left(now Instant) time.Duration { return v.long - now.KillerElapsed(v.from) }

// AppCall is one call of an application.
type AppCall struct {
	N  int64  // calls are numbered from 1 as they arrive
	ID string // of the application's process
	// Session and Seq are those of the reply that it acts on; empty and 0: none yet.
	Session string
	Seq     int64
	Ready   bool
	Running map[string]int64 // tokens by key
}

// AppEventKind is what happened to an application.
type AppEventKind uint8

// What can happen to an application.
const (
	AppTick    AppEventKind = iota
	AppSession              // the replica has this Session now; empty: none
	AppCalled               // Call arrived
	AppWaited               // the call that waits has waited for long enough
	AppAssign               // Key may run, under Token
	AppTake                 // Key is to be stopped
	AppEnded                // the process of the application is gone, and nothing of it is left
)

// AppEvent is an event for an application. Which fields count depends on Kind.
type AppEvent struct {
	Kind    AppEventKind
	Session string
	Call    AppCall
	Key     string
	Token   int64
	// Left is the time until the session's hard deadline, in every event; 0 or less: the lease is over.
	Left time.Duration
	// More says that another event follows at once: no call is answered before it.
	More bool
}

// AppActionKind is what is to be done about an application.
type AppActionKind uint8

// What is to be done about an application.
const (
	AppReply   AppActionKind = iota // answer call N with what Assigned and Stopping list, and ValidFor
	AppRefuse                       // answer call N: another application is listened to, for ValidFor still
	AppDrop                         // answer call N: a newer one has come
	AppRelease                      // nothing of Key runs under Token
)

// AppAction is one thing to do.
type AppAction struct {
	Kind     AppActionKind
	N        int64
	ValidFor time.Duration
	Key      string
	Token    int64
}

// NewApp has no session and no application.
func NewApp() *App { return &App{seq: 1, keys: map[string]*appKey{}} }

// Seq numbers what a reply of now would say.
func (a *App) Seq() int64 { return a.seq }

// Capacity says whether there is an application that takes keys, and has a validity. So calls change nothing while the
// lease of the replica is over.
func (a *App) Capacity(now Instant) bool {
	return a.session != "" && a.id != "" && a.ready && !a.Paused(now) && a.until.left(now) > 0
}

// Paused says whether the application said within the last AppPause that it takes no keys, after it did.
func (a *App) Paused(now Instant) bool { return a.pause.left(now) > 0 }

// Application is the process that is listened to; empty: none.
func (a *App) Application() string { return a.id }

// Remains is how long the application may go on for, whatever becomes of the replica.
func (a *App) Remains(now Instant) time.Duration { return max(0, a.until.left(now)) }

// Each calls do for every key: assigned, or else to be stopped.
func (a *App) Each(do func(key string, token int64, assigned bool)) {
	for key, k := range a.keys {
		do(key, k.token, k.withdrawn == 0)
	}
}

// Step is one event at one moment. It returns what is to be done, in order.
func (a *App) Step(ev AppEvent, now Instant) []AppAction {
	var done []AppAction
	if a.until.left(now) <= 0 {
		done = a.releaseGiven()
	}
	switch ev.Kind {
	case AppTick:
	case AppSession:
		if ev.Session != a.session {
			a.session = ev.Session
			a.seq++
		}
	case AppCalled:
		done = append(done, a.called(ev.Call, now)...)
	case AppWaited:
		if a.call.N != 0 {
			return append(done, a.reply(ev.Left, now))
		}
	case AppAssign:
		a.seq++
		a.keys[ev.Key] = &appKey{token: ev.Token}
		a.fresh = true
	case AppTake:
		done = append(done, a.take(ev.Key)...)
	case AppEnded:
		done = append(done, a.forget("")...)
	}
	if a.call.N != 0 && !ev.More && !a.knows(a.call) {
		done = append(done, a.reply(ev.Left, now))
	}
	return done
}

// knows says whether a call is based on what a reply of now would say.
func (a *App) knows(c AppCall) bool { return c.Session == a.session && c.Seq == a.seq }

// forget goes on with another application, or none: nothing runs of what was given to the one before.
func (a *App) forget(id string) (done []AppAction) {
	if a.call.N != 0 {
		done = append(done, AppAction{Kind: AppDrop, N: a.call.N})
	}
	done = append(done, a.releaseGiven()...)
	a.id, a.ready, a.until, a.pause, a.call = id, false, appValidity{}, appValidity{}, AppCall{}
	return done
}

// releaseGiven frees all that a reply has assigned.
func (a *App) releaseGiven() (done []AppAction) {
	if !a.given {
		return nil
	}
	for key, k := range a.keys {
		if k.given {
			done = append(done, a.release(key))
		}
	}
	a.given, a.withdrawn = false, false
	return done
}

func (a *App) release(key string) AppAction {
	token := a.keys[key].token
	delete(a.keys, key)
	a.seq++
	return AppAction{Kind: AppRelease, Key: key, Token: token}
}

// take has a key stopped. One that no reply assigned is free at once.
func (a *App) take(key string) []AppAction {
	k := a.keys[key]
	switch {
	case k == nil || k.withdrawn != 0:
		return nil
	case !k.given:
		return []AppAction{a.release(key)}
	}
	a.seq++
	k.withdrawn, a.withdrawn = a.seq, true
	return nil
}

// called takes a call. It may be old, or there twice.
func (a *App) called(c AppCall, now Instant) (done []AppAction) {
	if c.ID != a.id {
		if left := a.until.left(now); a.id != "" && left > 0 {
			return []AppAction{{Kind: AppRefuse, N: c.N, ValidFor: left}}
		}
		done = a.forget(c.ID)
	}
	if a.call.N != 0 {
		done = append(done, AppAction{Kind: AppDrop, N: a.call.N})
	}
	if a.ready && !c.Ready {
		a.pause = appValidity{now, AppPause}
	}
	a.call, a.ready = c, c.Ready
	if !a.withdrawn {
		return done
	}
	a.withdrawn = false
	for key, k := range a.keys {
		switch {
		case k.withdrawn == 0:
		case c.Running[key] != k.token && c.Session == a.session && c.Seq >= k.withdrawn:
			done = append(done, a.release(key))
		default:
			a.withdrawn = true
		}
	}
	return done
}

// reply answers the call that waits.
func (a *App) reply(left time.Duration, now Instant) AppAction {
	n := a.call.N
	a.call = AppCall{}
	left = max(0, left)
	if left > a.until.left(now) { // a reply before may be the one that arrives
		a.until = appValidity{now, left}
	}
	if a.fresh {
		for _, k := range a.keys {
			k.given = k.given || k.withdrawn == 0
		}
		a.fresh, a.given = false, true
	}
	return AppAction{Kind: AppReply, N: n, ValidFor: left}
}

package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// ring is a store with sessions in order of their names, and the replicas that watch one another through it.
type ring struct {
	p        protocol.Params
	now      time.Duration
	replicas []*ringReplica
	kills    int // sent
}

type ringReplica struct {
	peers  *Peers
	doc    record.Session
	own    protocol.Session
	starts time.Duration // of its heartbeats, and of its looks
	dead   bool          // its process
	killed time.Duration // when its session was marked dead
	read   int           // sessions that its looks have shown
}

// newRing has n replicas, of which the last few watch; the others only write heartbeats. It has run for a lease.
func newRing(t *testing.T, lease time.Duration, n, watching int) *ring {
	t.Helper()
	p, err := protocol.NewParams(lease, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := &ring{p: p}
	for i := range n {
		r := &ringReplica{doc: otherSession(fmt.Sprintf("s%04d", i), 1), starts: time.Duration(i*7919%97) * p.T / 970}
		r.doc.Lease = lease
		if i >= n-watching {
			r.peers = NewPeers(&Effects{}, p, testAt(0), nil)
			r.peers.Begin(&record.WriterIDs{Session: r.doc.ID})
		}
		g.replicas = append(g.replicas, r)
	}
	g.play(lease)
	return g
}

// step is how often everything is looked at.
const ringStep = 20 * time.Millisecond

// play lets d pass.
func (g *ring) play(d time.Duration) {
	for end := g.now + d; g.now < end; g.now += ringStep {
		for _, r := range g.replicas {
			if n := int64((g.now - r.starts) / g.p.Heartbeat); !r.dead && r.doc.State == record.Live && n > r.doc.Heartbeat {
				r.doc.Heartbeat, r.doc.Rev = n, 2*n
			}
		}
		for i, r := range g.replicas {
			if !r.dead && r.peers != nil && g.now >= r.starts {
				g.tick(i)
			}
		}
	}
}

// tick lets a replica act, and answers it.
func (g *ring) tick(i int) {
	r := g.replicas[i]
	m := testMoment(g.now)
	r.peers.HeartbeatAcked(m)
	for again := true; again; {
		again = false
		r.peers.Tick(r.own, 0, m)
		for _, x := range takeFrom(r.peers.out).effects {
			switch x := x.(type) {
			case SessionPoll:
				shown := g.list(i, x)
				r.read += len(shown)
				r.peers.Polled(shown, true, m.Now, m)
				again = true
			case readPeer:
				r.peers.Found(x.session, &g.named(x.session).doc, true, m.Now, m)
			case killSession:
				g.kill(x, r, m)
			default:
			}
		}
	}
}

func (g *ring) kill(x killSession, by *ringReplica, m protocol.Moment) {
	g.kills++
	status, q := protocol.Refused, g.named(x.session)
	if q.doc.Rev == x.change.IfRev {
		status, q.killed = protocol.Applied, g.now
		q.doc.State, q.doc.Rev = record.Dead, x.change.Doc.Rev
	}
	by.peers.Answered(x.session, status, m)
	for _, r := range g.replicas {
		if !r.dead && r.peers != nil {
			r.peers.PollAll()
		}
	}
}

func (g *ring) named(session string) *ringReplica {
	var i int
	_, _ = fmt.Sscanf(session, "s%04d", &i)
	return g.replicas[i]
}

// list is what a look shows: those that live, from the one after the replica's on.
func (g *ring) list(i int, x SessionPoll) (shown []record.Session) {
	for n := range g.replicas {
		if r := g.replicas[(i+1+n)%len(g.replicas)]; r.doc.State == record.Live && (x.All || len(shown) < x.Count) {
			shown = append(shown, r.doc)
		}
	}
	return shown
}

// die ends the processes of n replicas that follow one another, and says how much longer than T it takes until the last
// of them is marked dead.
func (g *ring) die(t *testing.T, n int) time.Duration {
	t.Helper()
	at, dying := g.now, g.replicas[:n]
	for _, r := range dying {
		r.dead = true
	}
	g.play(3 * g.p.T)
	last := time.Duration(0)
	for _, r := range dying {
		if r.killed == 0 {
			t.Fatalf("%s is not marked dead", r.doc.ID)
		}
		last = max(last, r.killed-at)
	}
	for _, r := range g.replicas[n:] {
		if r.killed != 0 {
			t.Fatalf("%s lives, and was marked dead", r.doc.ID)
		}
	}
	return last - g.p.T
}

// However many replicas there are, each reads at most 20 sessions a second.
func TestLooksShowNoMoreWithMoreReplicas(t *testing.T) {
	for _, n := range []int{2, 8, 9, 10, 17, 50, 200, 1000} {
		g := newRing(t, 20*time.Second, n, 1)
		reader := g.replicas[n-1]
		before := reader.read
		rest := 11 * g.p.T
		g.play(rest)
		rate := float64(reader.read-before) / rest.Seconds()
		t.Logf("%d replicas: %.1f sessions a second", n, rate)
		if rate > 20 {
			t.Errorf("of %d replicas each reads %.1f sessions a second", n, rate)
		}
		if g.kills > 0 {
			t.Errorf("of %d replicas that live, one was to be marked dead %d times", n, g.kills)
		}
	}
}

// One death, and those of up to four replicas in a row, are noticed as soon as any look can, however many there are. So
// are those of any number of up to eight. A longer row is shown by the looks for all, at most T/2 later.
func TestDeathsAreNoticed(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		replicas, die int
		lease, late   time.Duration
	}{
		{2, 1, 20 * sec, 0},
		{8, 7, 20 * sec, 0},
		{10, 1, 20 * sec, 0},
		{10, 4, 20 * sec, 0},
		{10, 9, 20 * sec, 400 * time.Millisecond},
		{17, 16, 20 * sec, 1200 * time.Millisecond},
		{20, 10, 8 * sec, 0},
		{50, 1, 20 * sec, 0},
		{50, 4, 20 * sec, 0},
		{50, 16, 20 * sec, 4 * sec},
		{50, 40, 20 * sec, 4 * sec},
		{50, 1, 4 * sec, 0},
		{50, 40, 4 * sec, 2 * sec},
		{50, 40, sec, sec / 2},
		{100, 60, 20 * sec, 10 * sec},
		{200, 1, 20 * sec, 0},
		{200, 4, 20 * sec, 0},
	} {
		t.Run(fmt.Sprintf("%d of %d with T = %v", c.die, c.replicas, c.lease), func(t *testing.T) {
			for phase := range 3 { // of their heartbeats
				g := newRing(t, c.lease, c.replicas, min(c.replicas-c.die, 20))
				g.play(g.p.Heartbeat / 3 * time.Duration(phase))
				late := g.die(t, c.die)
				t.Logf("T and %v", late)
				if most := c.late + g.p.Observe + 2*ringStep; late > most {
					t.Errorf("marked dead %v after T, want %v at most", late, most)
				}
			}
		})
	}
}

// A session that is looked at now and then is not shown as silent in between.
func TestTimeWithoutALookIsNoSilence(t *testing.T) {
	g := newRing(t, 20*time.Second, 200, 1)
	r := g.replicas[199]
	for range 30 {
		g.play(time.Second)
		for id, age := range r.peers.All.Ages(testAt(g.now)) {
			if age > g.p.Heartbeat+2*g.p.Observe {
				t.Fatalf("%s sends heartbeats, and its last one is shown as %v old", id, age)
			}
		}
	}
	g.replicas[0].dead = true
	g.play(g.p.T / 2)
	if age := r.peers.All.Ages(testAt(g.now))[g.replicas[0].doc.ID]; age < g.p.T/2 {
		t.Errorf("a session that has died is shown as silent for %v", age)
	}
}

package replica

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/admin"
	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
	"github.com/shardctl/shardctl/test/viewtest"
)

// commandPlay is a store, and replicas that may be asked.
type commandPlay struct {
	settings *settings.Settings
	db       *memory.Store // that nothing happens to
	faulty   *memory.Store // what commands and replicas use
	now      time.Time
	away     bool
	lose     bool // the next answer to a change
	desks    []*desk
	tokens   int64
	globals  func() *cli.Globals
}

func newCommandPlay(s *settings.Settings) *commandPlay {
	p := &commandPlay{settings: s, now: time.UnixMilli(1_000_000), tokens: 10}
	p.db = memory.New(memory.WithClock(func() time.Time { return p.now }))
	p.faulty = p.db.Client()
	p.faulty.Fault(func(c memory.Call) memory.Verdict {
		switch {
		case p.away:
			return memory.Verdict{Fault: memory.LoseRequest}
		case p.lose && c.Op == memory.OpApply:
			p.lose = false
			return memory.Verdict{Fault: memory.LoseAnswer}
		}
		return memory.Verdict{}
	})
	for instance, state := range map[string]record.SessionState{"a": record.Live, "b": record.Live, "c": record.Dead} {
		p.join(instance, state)
	}
	for range 2 {
		d := &desk{settings: s, db: p.faulty, writer: operate.NewWriter(p.faulty)}
		d.look()
		d.server = httptest.NewServer(admin.New(admin.Config{
			Read: status.New(status.Config{Source: &d.board}), Source: &d.board, Changer: d, Guard: &admin.Guard{},
			Logger: logr.Discard(),
		}))
		p.desks = append(p.desks, d)
	}
	p.globals = func() *cli.Globals {
		return &cli.Globals{
			Getenv: func(string) string { return "" },
			Offline: func(ctx context.Context, _ []string) (*snapshot.Cluster, error) {
				return view.NewOffline(s, p.faulty).Snapshot(ctx, "1", p.now)
			},
			Change: func(
				ctx context.Context, _ []string, r operate.Request, about func(*snapshot.Cluster) ([]string, error),
				preview bool,
			) (api.ChangeResult, error) {
				return operate.ChangeStore(ctx, s, p.faulty, r, about, preview)
			},
		}
	}
	return p
}

func (p *commandPlay) close() {
	for _, d := range p.desks {
		d.server.Close()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// desk is what a replica has of a change: what it has seen, and what it answers.
type desk struct {
	settings *settings.Settings
	db       store.Store
	writer   *operate.Writer
	view     *cluster.View
	board    snapshot.Board
	server   *httptest.Server
}

func (d *desk) Change(ctx context.Context, r operate.Request, preview bool) (api.ChangeResult, error) {
	now, err := view.ReadAgain(ctx, d.db, d.view, r.Keys())
	if err != nil {
		return api.ChangeResult{}, err
	}
	_, result, err := operate.Change(ctx, d.writer, operate.StateOf(d.settings, view.StoreLists{}, now), r, preview)
	if err == nil && !preview {
		d.look()
	}
	return result, err
}

// look takes in what the store has, where it answers.
func (d *desk) look() {
	seen, err := view.ReadCluster(context.Background(), d.settings, d.db, true)
	if err == nil {
		d.view = seen
	}
	d.publish(err != nil)
}

func (d *desk) publish(stale bool) {
	s := view.Make(view.Input{
		Settings: d.settings, Cluster: d.view, Report: reconcile.Explain(d.view, view.StoreLists{}.Declared(d.settings)),
	}, nil, time.Now()).Snapshot
	s.Status.Stale, s.Status.Store.Reachable = stale, !stale
	d.board.Publish(s)
}

func (p *commandPlay) desk(t *rapid.T) *desk { return rapid.SampledFrom(p.desks).Draw(t, "replica") }

// put writes documents past all faults, over what is there.
func (p *commandPlay) put(docs ...driver.Doc) {
	for _, d := range docs {
		found, _ := p.db.Read(context.Background(), d.Kind, d.ID)
		change := driver.Change{Doc: d}
		for _, before := range found.Docs {
			change.IfRev = before.Rev
		}
		change.Doc.Rev = max(change.IfRev+1, 2)
		if outs, err := p.db.Apply(context.Background(), change); err != nil || outs[0].Status != driver.Applied {
			panic(fmt.Sprint(outs, err))
		}
	}
}

var byWorld = driver.WriterID{Session: "W", Seq: 1}

func (p *commandPlay) join(instance string, state record.SessionState) {
	id := strings.ToUpper(instance)
	m := elect.Member{Session: id, Instance: instance, ListHashes: map[string]string{"g": p.settings.Groups[0].Hash}}
	p.put(m.Doc(byWorld), record.Session{ID: id, WriterID: byWorld, State: state, Instance: instance}.Doc())
}

// start has a live instance run a task, under a new token.
func (p *commandPlay) start(t *rapid.T) {
	p.tokens++
	lock := viewtest.Lock(drawTask(t), rapid.SampledFrom([]string{"A", "B"}).Draw(t, "owner"), "running")
	lock.Token, lock.WriterID = p.tokens, byWorld
	p.put(lock.Doc())
}

// end has a task end for good.
func (p *commandPlay) end(t *rapid.T) {
	lock := viewtest.Lock(drawTask(t), "", "done")
	lock.Token, lock.WriterID, lock.Suspended = p.tokens, byWorld, true
	lock.Status.Outcome = &elect.RunOutcome{Succeeded: true, Token: p.tokens}
	p.put(lock.Doc())
}

func drawTask(t *rapid.T) elect.Key {
	return elect.Key("g/" + rapid.SampledFrom([]string{"t1", "t2", "tick"}).Draw(t, "task"))
}

// pass lets time pass; a replica takes back what has ended by itself, and nothing else.
func (p *commandPlay) pass(t *rapid.T) {
	before := p.world()
	p.now = p.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
	if err := operate.NewWriter(p.db).End(context.Background()); err != nil {
		panic(err)
	}
	var over []string
	after := p.world()
	for id, o := range before.overrides {
		if o.Until == 0 || o.Until > p.now.UnixMilli() {
			continue
		}
		over = append(over, id)
		if _, stands := after.overrides[id]; stands {
			t.Fatalf("%+v still stands at %d", o, p.now.UnixMilli())
		}
	}
	p.wantKept(t, before, after, over, "time passes")
}

// world is what the store has.
type world struct {
	*cluster.View
	overrides map[string]record.Override
	events    int // that people asked for something
}

func (p *commandPlay) world() world {
	now, err := view.ReadCluster(context.Background(), p.settings, p.db, true)
	if err != nil {
		panic(err)
	}
	w := world{View: now, overrides: map[string]record.Override{}}
	for _, o := range now.Overrides {
		if o.Kind != record.OverrideResume {
			w.overrides[o.ID()] = o
		}
	}
	events, _ := p.db.List(context.Background(), driver.KindEvent, driver.Query{})
	for _, d := range events.Docs {
		if e, err := record.EventFrom(d); err == nil && e.Type == operate.EventChange {
			w.events++
		}
	}
	return w
}

func (w world) session(id string) *cluster.Session {
	at := slices.IndexFunc(w.Sessions, func(s cluster.Session) bool { return s.ID == id && s.State != record.Dead })
	if at < 0 {
		return nil
	}
	return &w.Sessions[at]
}

func (w world) instance(name string) bool {
	return slices.ContainsFunc(w.Sessions, func(s cluster.Session) bool { return s.Member.Instance == name })
}

func (w world) stands(kind record.OverrideKind, scope record.Scope, name string) (record.Override, bool) {
	o, ok := w.overrides[record.Override{Kind: kind, Scope: scope, Name: name}.ID()]
	return o, ok
}

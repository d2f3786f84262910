package idempotencyhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencehttp"
	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/idempotency/idempotencyhttp"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// How a call of the handler ends.
const (
	succeeds = "succeeds"
	fails    = "fails"
	refuses  = "refuses" // and says that it had no effect
)

// sending is one request of a client: that of a caller, for a message, from the owner of then.
type sending struct {
	Caller, Message string
	Token           int64
	At, Patience    time.Duration
}

func (s sending) request() string { return s.Caller + " " + s.Message }

// traffic is what is sent, and how the handler's calls end, one after another. After the last each one succeeds.
type traffic struct {
	FenceFirst, Wait bool
	Sendings         []sending
	Ends             []string
	Took             time.Duration // by each call
}

func drawTraffic(t *rapid.T) traffic {
	seconds := func(most int) *rapid.Generator[time.Duration] {
		tenth := func(n int) time.Duration { return time.Duration(n) * time.Second / 10 }
		return rapid.Map(rapid.IntRange(0, 10*most), tenth)
	}
	one := rapid.Custom(func(t *rapid.T) sending {
		return sending{
			Caller:  rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "caller"),
			Message: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "message"),
			Token:   rapid.Int64Range(1, 3).Draw(t, "token"),
			At:      seconds(6).Draw(t, "at"), Patience: seconds(4).Draw(t, "patience"),
		}
	})
	return traffic{
		FenceFirst: rapid.Bool().Draw(t, "fence first"), Wait: rapid.Bool().Draw(t, "wait"),
		Sendings: rapid.SliceOfN(one, 1, 12).Draw(t, "sendings"),
		Ends:     rapid.SliceOfN(rapid.SampledFrom([]string{succeeds, fails, refuses}), 0, 6).Draw(t, "ends"),
		Took:     seconds(2).Draw(t, "took"),
	}
}

// shop is a handler behind both middlewares. It notes what must not be.
type shop struct {
	traffic
	handler http.Handler

	mu        sync.Mutex
	seen      int64          // the largest token that was sent
	worked    int64          // the largest token that was worked under
	calls     int            // of the handler
	atWork    map[string]int // calls, by request
	succeeded map[string]int
	problems  []error
}

func newShop(tr traffic) (*shop, error) {
	s := &shop{traffic: tr, atWork: map[string]int{}, succeeded: map[string]int{}}
	guard, err := idempotency.New(idempotency.Config{Records: idempotency.Memory(), Wait: tr.Wait})
	if err != nil {
		return nil, err
	}
	once, err := idempotencyhttp.New(idempotencyhttp.Options{
		Guard: guard, Required: true, Caller: func(r *http.Request) string { return r.Header.Get("Caller") },
	})
	if err != nil {
		return nil, err
	}
	fences, work := new(fence.Memory), http.HandlerFunc(s.work)
	if s.handler = once(fencehttp.Handler(fences, work)); tr.FenceFirst {
		s.handler = fencehttp.Handler(fences, once(work))
	}
	return s, nil
}

func (s *shop) wrong(format string, args ...any) {
	s.problems = append(s.problems, fmt.Errorf("%s: "+format, append([]any{time.Now().Format("05.0")}, args...)...))
}

func (s *shop) work(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	request := r.Header.Get("Caller") + " " + string(body)
	token, err := strconv.ParseInt(r.Header.Get(fencehttp.HeaderToken), 10, 64)
	if err != nil {
		panic(err)
	}
	end := s.begin(request, token)
	time.Sleep(s.Took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atWork[request]--
	switch end {
	case succeeds:
		s.succeeded[request]++
		w.WriteHeader(http.StatusCreated)
	case fails:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		idempotencyhttp.NoEffect(r)
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = io.WriteString(w, request)
}

func (s *shop) begin(request string, token int64) (end string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.worked = max(s.worked, token); token < s.worked {
		s.wrong("%s: works under token %d after %d", request, token, s.worked)
	}
	if s.atWork[request]++; s.atWork[request] > 1 {
		s.wrong("%s: two calls at work", request)
	}
	if s.succeeded[request] > 0 {
		s.wrong("%s: works again after it has succeeded", request)
	}
	if s.calls++; s.calls <= len(s.Ends) {
		return s.Ends[s.calls-1]
	}
	return succeeds
}

func (s *shop) send(ctx context.Context, one sending) int {
	ctx, cancel := context.WithTimeout(ctx, one.Patience)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(one.Message))
	r.Header.Set("Caller", one.Caller)
	r.Header.Set("Idempotency-Key", "messages/"+one.Message)
	r.Header.Set(fencehttp.HeaderKey, "g/n")
	r.Header.Set(fencehttp.HeaderToken, strconv.FormatInt(one.Token, 10))
	s.mu.Lock()
	s.seen = max(s.seen, one.Token)
	s.mu.Unlock()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judge(one, w)
	return w.Code
}

// judge looks at an answer.
func (s *shop) judge(one sending, w *httptest.ResponseRecorder) {
	replayed := w.Header().Get("Idempotent-Replayed") != ""
	old := strings.Contains(w.Body.String(), fencehttp.ReasonOldToken)
	switch {
	case w.Header().Get("Content-Type") != "application/problem+json":
		if w.Body.String() != one.request() {
			s.wrong("%+v: got the reply of %q", one, w.Body)
		}
		if replayed && w.Code == http.StatusTooManyRequests {
			s.wrong("%+v: a refusal was replayed", one)
		}
	case replayed:
		s.wrong("%+v: a problem was replayed: %s", one, w.Body)
	case old && one.Token >= s.seen:
		s.wrong("%+v: the newest owner got the answer that its token is old", one)
	}
}

// run has all be sent. Then the newest owner sends each request until it is not refused, as it must be before long.
func (s *shop) run(ctx context.Context) error {
	var group sync.WaitGroup
	for _, one := range s.Sendings {
		group.Go(func() {
			time.Sleep(one.At)
			s.send(ctx, one)
		})
	}
	group.Wait()
	for _, last := range s.Sendings {
		last.Token, last.Patience = s.seen, time.Hour
		code := 0
		for range len(s.Ends) + 1 {
			if code = s.send(ctx, last); code != http.StatusTooManyRequests {
				break
			}
		}
		if code != http.StatusCreated && code != http.StatusInternalServerError {
			s.wrong("%+v: at last the answer is %d", last, code)
		}
	}
	return errors.Join(s.problems...)
}

// Owners change, handlers fail, and clients give up and send again. With the fence on either side of the middleware no
// request succeeds twice, no refusal is kept, and no caller gets the reply of another.
func TestIdempotencyAndAFence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		drawn := drawTraffic(rt)
		var problem error
		synctest.Test(t, func(t *testing.T) {
			s, err := newShop(drawn)
			if err == nil {
				err = s.run(t.Context())
			}
			problem = err
		})
		if problem != nil {
			rt.Fatal(problem)
		}
	})
}

package operate_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

func TestInvalidRequestsNameTheField(t *testing.T) {
	for name, test := range map[string]struct {
		request operate.Request
		field   string
	}{
		"a verb that is none":  {task("shake", "g/1"), "verb"},
		"an instance to pause": {instance(api.Pause, "a"), "verb"},
		"no task":              {task(api.Pause), "task"},
		"two instances": {
			operate.Request{Verb: api.Drain, Scope: record.ScopeInstance, Names: []string{"a", "b"}}, "instance",
		},
		"a pin to nowhere":    {task(api.Pin, "g/1"), "instance"},
		"a malformed pattern": {to(task(api.Pin, "g/1"), "web-[", false), "instance"},
		"a move to nowhere":   {task(api.Move, "g/1"), "instance"},
		"a pause to somewhere": {
			to(task(api.Pause, "g/1"), "a", false), "instance",
		},
		"a restart for a while": {within(task(api.Restart, "g/1"), time.Hour), "for"},
		"a resume for a while":  {within(task(api.Resume, "g/1"), time.Hour), "for"},
		"a pause for no time":   {within(task(api.Pause, "g/1"), time.Millisecond), "for"},
		"a pause into the past": {within(task(api.Pause, "g/1"), -time.Hour), "for"},
		"a pause for ever":      {within(task(api.Pause, "g/1"), operate.MaxFor+1), "for"},
		"a strict move":         {to(task(api.Move, "g/1"), "a", true), "strict"},
		"a long reason": {
			operate.Request{
				Verb: api.Drain, Scope: record.ScopeInstance, Names: []string{"a"},
				Reason: strings.Repeat("x", 2000),
			},
			"reason",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var invalid *operate.InvalidError
			if err := test.request.Validate(); !errors.As(err, &invalid) || !errors.Is(err, operate.ErrInvalid) ||
				invalid.Field != test.field {
				t.Errorf("%v, want an error of the field %s", err, test.field)
			}
		})
	}
}

// Texts are bounded in characters, whatever these take in bytes, and what is taken is kept whole.
func TestTextsAreBoundedInCharacters(t *testing.T) {
	fields := map[string]func(*operate.Request, string){
		"reason":   func(r *operate.Request, text string) { r.Reason = text },
		"by":       func(r *operate.Request, text string) { r.By = text },
		"id":       func(r *operate.Request, text string) { r.ID = text },
		"instance": func(r *operate.Request, text string) { r.To = text },
	}
	for _, character := range []string{"x", "ä", "日", "😀"} {
		for field, put := range fields {
			r := to(task(api.Pin, "g/1"), "a", false)
			put(&r, strings.Repeat(character, record.MaxAsked))
			if err := r.Validate(); err != nil {
				t.Errorf("%s of %d times %s: %v", field, record.MaxAsked, character, err)
			}
			asked := operate.Decide(state(), r).Put[0]
			kept, err := record.OverrideFrom(asked.Doc(driver.WriterID{Session: "s", Seq: 1}))
			if err != nil || !reflect.DeepEqual(kept, asked) {
				t.Errorf("%s of %s is not kept whole: %v", field, character, err)
			}
			put(&r, strings.Repeat(character, record.MaxAsked+1))
			want := field + ": 1025 characters; at most 1024 are allowed"
			if err := r.Validate(); err == nil || err.Error() != want {
				t.Errorf("one %s more: %v, want %s", character, err, want)
			}
		}
	}
}

package driver

import "testing"

// Heartbeats and claims are not reported: an idle cluster costs a watcher nothing.
func TestNotable(t *testing.T) {
	session := func(state string) *Doc { return &Doc{Kind: KindSession, ID: "a", State: state} }
	lock := func(owner, next string) *Doc { return &Doc{Kind: KindLock, ID: "g/a", Session: owner, Next: next} }
	tests := map[string]struct {
		old, d *Doc
		want   bool
	}{
		"heartbeat":         {session("live"), session("live"), false},
		"state":             {session("live"), session("dead"), true},
		"new session":       {nil, session("live"), true},
		"removed session":   {session("dead"), nil, true},
		"claim":             {nil, lock("s", ""), false},
		"hand-over":         {lock("s", ""), lock("", "b"), true},
		"release":           {lock("s", ""), lock("", ""), true},
		"deleted lock":      {lock("s", ""), nil, true},
		"claim of the next": {lock("", "b"), lock("s", ""), false},
		"override removed":  {&Doc{Kind: KindOverride, ID: "pause/g/a"}, nil, true},
		"member":            {nil, &Doc{Kind: KindMember, ID: "a"}, false},
	}
	for name, tt := range tests {
		if got := Notable(tt.old, tt.d); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

func TestWants(t *testing.T) {
	lock := func(id, next string) Doc { return Doc{Kind: KindLock, ID: id, Group: "g", Next: next} }
	counter := Doc{Kind: KindGroup, ID: "g"}
	tests := map[string]struct {
		in   Interest
		d    Doc
		want bool
	}{
		"counter":                 {Interest{}, counter, true},
		"counter of the group":    {Interest{Groups: []string{"f", "g"}}, counter, true},
		"counter of another":      {Interest{Groups: []string{"f"}}, counter, false},
		"no group at all":         {Interest{Groups: []string{}}, counter, false},
		"session and a group":     {Interest{Groups: []string{"f"}}, Doc{Kind: KindSession, ID: "s"}, true},
		"another kind":            {Interest{Kinds: []Kind{KindSession}}, counter, false},
		"a kind of no interest":   {Interest{Kinds: []Kind{KindMember}}, Doc{Kind: KindMember, ID: "s"}, false},
		"lock, asked for none":    {Interest{}, lock("g/a", ""), false},
		"lock reserved for me":    {Interest{Session: "me"}, lock("g/a", "me"), true},
		"lock reserved elsewhere": {Interest{Session: "me"}, lock("g/a", "you"), false},
		"lock that is free":       {Interest{Session: "me"}, lock("g/a", ""), false},
		"lock waited for":         {Interest{Keys: []string{"g/a"}}, lock("g/a", "you"), true},
		"lock of another waiter":  {Interest{Keys: []string{"g/a"}}, lock("g/b", ""), false},
		"lock, other kinds":       {Interest{Keys: []string{"g/a"}, Kinds: []Kind{KindGroup}}, lock("g/a", ""), true},
	}
	for name, tt := range tests {
		if got := tt.in.Wants(tt.d); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

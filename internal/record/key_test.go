package record

import "testing"

func TestKeysWithoutAGroupShareOneCounter(t *testing.T) {
	for key, want := range map[Key]string{"g/k": "g", "a": counterUngrouped, "b": counterUngrouped} {
		if got := CounterOf(key); got != want {
			t.Errorf("%s: counter %q, want %q", key, got, want)
		}
	}
}

package guard

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	const tail = " 20 30 30 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0"
	for _, c := range []struct {
		text string
		want proc
		ok   bool
	}{
		{"7 (sh) S" + tail, proc{pid: 7, ppid: 20, group: 30, start: 12345}, true},
		{"7 (a) R 1 (x y) Z" + tail, proc{pid: 7, ppid: 20, group: 30, start: 12345, zombie: true}, true},
		{"7 (sh) S 1 2 3", proc{}, false},
		{"", proc{}, false},
	} {
		if got, ok := parseStat(7, []byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%q: %+v, %v", c.text, got, ok)
		}
	}
}

func TestListFindsThisProcess(t *testing.T) {
	procs, err := listProcs()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if p.pid == os.Getpid() {
			if p.ppid != os.Getppid() {
				t.Errorf("parent %d, want %d", p.ppid, os.Getppid())
			}
			return
		}
	}
	t.Error("this process is not in the list")
}

func TestSignalSparesAnother(t *testing.T) {
	me, _ := readProc(os.Getpid())
	me.start++ // as if the number had been another's
	me.signal(9)
}

func BenchmarkList(b *testing.B) {
	for b.Loop() {
		if _, err := listProcs(); err != nil {
			b.Fatal(err)
		}
	}
}

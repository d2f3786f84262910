package guard

import (
	"os"
	"testing"
	"time"
)

func TestSpawnerRefusesAnOrderThatWaitedTooLong(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	o := spawnOrder{
		start:     start{Path: []byte("/no/such/file"), Args: bytesOf([]string{"x"})},
		deadlines: DeadlinesFrom(Now().Add(-time.Second), time.Second, 750*time.Millisecond),
	}
	if _, err := o.run(null); err == nil || err.Error() != "the session's renewal deadline has passed" {
		t.Errorf("got %v", err)
	}
}

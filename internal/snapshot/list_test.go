package snapshot

import (
	"slices"
	"sync"
	"testing"
)

func TestAListIsMadeOnceWhenItIsRead(t *testing.T) {
	made := 0
	list := Later(func() []int { made++; return []int{1, 2} })
	same := list
	if made != 0 {
		t.Error("it was made before it was read")
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			if !slices.Equal(same.All(), []int{1, 2}) {
				t.Error("a reader got another list")
			}
		})
	}
	readers.Wait()
	if made != 1 || list != same || list == Listed(list.All()) || (List[int]{}).All() != nil {
		t.Errorf("it was made %d times, or lists are not distinguished", made)
	}
}

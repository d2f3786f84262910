package status

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
)

// TestFiltersDoNotHoldUpOthers holds that those who watch everything wait for no filter, and that filters do not push
// out what they share.
func TestFiltersDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOpenings(1)
		usable := func(*opening) bool { return true }
		fresh := func() (*opening, error) {
			return &opening{text: &packed{data: make([]byte, openingsKept/4)}}, nil
		}
		everything := conditions{scope: "/api/v1/tasks?"}
		shared, err := o.get(t.Context(), everything, usable, fresh)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := o.get(
				t.Context(), conditions{scope: fmt.Sprintf("/api/v1/tasks?q=%d", i)}, usable, fresh,
			); err != nil {
				t.Fatal(err)
			}
			if size := o.size(); size > openingsKept {
				t.Errorf("%d bytes are kept", size)
			}
		}
		again, err := o.get(t.Context(), everything, usable, fresh)
		if err != nil || again != shared {
			t.Errorf("what most share was pushed out: %v", err)
		}
		hanging, ended := make(chan struct{}), make(chan error)
		go func() {
			_, err := o.get(t.Context(), conditions{scope: "/api/v1/tasks?q=slow"}, usable, func() (*opening, error) {
				<-hanging
				return fresh()
			})
			ended <- err
		}()
		synctest.Wait()
		if _, err := o.get(t.Context(), conditions{scope: "/api/v1/locks?"}, usable, fresh); err != nil {
			t.Error(err)
		}
		gone, leave := context.WithCancel(t.Context())
		go func() {
			_, err := o.get(gone, conditions{scope: "/api/v1/tasks?q=next"}, usable, fresh)
			ended <- err
		}()
		synctest.Wait()
		leave() // who waits for a turn may go
		if err := <-ended; err == nil {
			t.Error("a filter does not wait for its turn")
		}
		close(hanging)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

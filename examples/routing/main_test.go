package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("ROUTING_PROCESS") != "" {
		if err := run(stamped); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// stamp says which owner answered, and when.
type stamp struct {
	Key          string
	Token        int64
	Began, Ended int64 // Unix ns
}

// stamped answers with a stamp, after a moment.
func stamped(w http.ResponseWriter, r *http.Request) {
	s := stamp{Key: r.Header.Get("Shardctl-Key"), Began: time.Now().UnixNano()}
	s.Token, _ = strconv.ParseInt(r.Header.Get("Shardctl-Fencing-Token"), 10, 64) // set by the owner itself
	time.Sleep(time.Millisecond)                                                  // two owners would overlap in it
	s.Ended = time.Now().UnixNano()
	_ = json.NewEncoder(w).Encode(s)
}

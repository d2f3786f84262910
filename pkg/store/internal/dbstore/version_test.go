package dbstore_test

import (
	"testing"

	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

func TestOlder(t *testing.T) {
	for _, tt := range []struct {
		version, than string
		older, known  bool
	}{
		{"3.5.2", "3.5.3", true, true},
		{"3.5.3", "3.5.3", false, true},
		{"3.10.0", "3.5.3", false, true}, // as numbers, not as texts
		{"3.6.0-rc.4", "3.5.3", false, true},
		{"3.5", "3.5.3", true, true},
		{"10.6.18-MariaDB-log", "10.6", false, true},
		{"5.7.44-log", "8.0", true, true},
		{"7", "6.2", false, true},
		{"", "6.2", true, false},
		{"unknown", "6.2", true, false},
		{"99999999999999999999.1", "6.2", true, false},
	} {
		older, known := dbstore.Older(tt.version, tt.than)
		if older != tt.older || known != tt.known {
			t.Errorf("%q against %s: %t, %t; want %t, %t", tt.version, tt.than, older, known, tt.older, tt.known)
		}
	}
}

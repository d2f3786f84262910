package zookeeper

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
)

func TestEscape(t *testing.T) {
	texts := []string{"", ".", "..", ".a", "a.", "g/a", "a@7", "%2F", "%", "%25", "ä\n"}
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}), string([]byte{'.', byte(c)}))
	}
	for _, text := range texts {
		name := escape(text)
		back, ok := unescape(name)
		if !ok || back != text {
			t.Errorf("%q became %q and then %q, %t", text, name, back, ok)
		}
		if strings.ContainsAny(name, "/@\x00") || name == "." || name == ".." {
			t.Errorf("%q became %q, which is no name", text, name)
		}
	}
}

func TestNamesThatEscapeDoesNotMake(t *testing.T) {
	for _, name := range []string{"%", "%2", "%2f", "%41", "a b", "%zz"} {
		if text, ok := unescape(name); ok {
			t.Errorf("%q is taken for %q", name, text)
		}
	}
}

func TestURIs(t *testing.T) {
	u := storetest.URIs{
		Right: map[string]string{
			"zk://h": DefaultDatabase, "zk://u:s3cret@h1,h2:99/a/b?tls=true": DefaultDatabase, "zk://h/": DefaultDatabase,
			"zk://u:s3cret@h?tls=false&tlsCAFile=": DefaultDatabase,
		},
		Wrong: map[string]string{
			"zk:h":                "must be zk://HOST",
			"zk://":               "names no host",
			"zk://u@h":            "names a user without a password",
			"zk://:s3cret@h":      "names a user without a password",
			"zk://u%3Ax:s3cret@h": "with a colon",
			"zk://h/../a":         "names a wrong chroot",
			"zk://h/a//b":         "names a wrong chroot",
			"zk://h?chroot=a":     `a parameter "chroot"`,
		},
		Shown:  map[string]string{"zk://u:s3cret@h/a": "zk://u:xxxxx@h/a"},
		Nobody: func(addr string) string { return "zk://u:s3cret@" + addr },
	}
	for _, name := range []string{"zookeeper", "a/b", ".."} {
		u.Configs = append(u.Configs, storetest.Parsed{
			Config: driver.Config{URI: "zk://h", Database: name}, Field: "database", Says: "not begin with",
		})
	}
	u.Run(t)
}

func TestVersions(t *testing.T) {
	for version, old := range map[string]bool{
		"3.4.14": true, "2.9": true, "3.5.0": false, "3.10.1": false, "4.0": false, "": false,
	} {
		if err := refuse(version); (err != nil) != old {
			t.Errorf("%q: %v, want too old: %t", version, err, old)
		}
	}
	const answer = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC\nMode: leader\n"
	if got := versionOf(answer); got != "3.8.0" {
		t.Errorf("version %q", got)
	}
}

// Only a heartbeat is known to leave a session's state as it was.
func TestHeartbeats(t *testing.T) {
	l := &liveSessions{revs: map[string]int64{}}
	heartbeat := func(ifRev int64, state string) driver.Change {
		return driver.Change{
			IfRev: ifRev,
			Doc:   driver.Doc{Kind: driver.KindSession, ID: "s", Rev: ifRev + 2, State: state},
		}
	}
	if l.heartbeat(heartbeat(0, driver.StateLive)) || l.heartbeat(heartbeat(2, driver.StateLive)) {
		t.Error("a session that was not seen live has a heartbeat")
	}
	l.note(heartbeat(0, driver.StateLive))
	if !l.heartbeat(heartbeat(2, driver.StateLive)) || l.heartbeat(heartbeat(4, driver.StateLive)) ||
		l.heartbeat(heartbeat(2, "dead")) {
		t.Error("want a heartbeat at revision 2 alone, by one that stays live")
	}
	l.note(heartbeat(2, "dead"))
	if l.heartbeat(heartbeat(4, driver.StateLive)) {
		t.Error("a dead session has a heartbeat")
	}
}

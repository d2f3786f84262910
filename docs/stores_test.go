package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	_ "github.com/shardctl/shardctl/pkg/store/etcd"
	_ "github.com/shardctl/shardctl/pkg/store/mongo"
	_ "github.com/shardctl/shardctl/pkg/store/mysql"
	_ "github.com/shardctl/shardctl/pkg/store/postgres"
	_ "github.com/shardctl/shardctl/pkg/store/quorum"
	_ "github.com/shardctl/shardctl/pkg/store/redis"
	_ "github.com/shardctl/shardctl/pkg/store/sqlite"
	_ "github.com/shardctl/shardctl/pkg/store/zookeeper"
)

var storePage = regexp.MustCompile(`\[[^\]]+\]\(([a-z]+\.md)\)`)

// A store that registers itself has a row in the table of stores, with a link to its page, and the chart knows its
// port.
func TestStoresAreOnTheirPage(t *testing.T) {
	rows := strings.Split(read(t, "stores/README.md"), "\n")
	chart, err := os.ReadFile("../helm/shardctl/templates/networkpolicy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(driver.Schemes()) < 3 {
		t.Fatalf("registered: %v", driver.Schemes())
	}
	for _, s := range driver.Schemes() {
		found := false
		for _, row := range rows {
			page := storePage.FindStringSubmatch(row)
			if page == nil || !strings.Contains(row, "`"+s.Scheme+":") {
				continue
			}
			found = true
			if _, err := os.Stat(filepath.Join("stores", page[1])); err != nil {
				t.Errorf("%s: %v", s.Scheme, err)
			}
		}
		if !found {
			t.Errorf("docs/stores/README.md: no row of the table has `%s:…` and a link to a page", s.Scheme)
		}
		d, err := driver.Lookup(s.Scheme + ":")
		if err != nil {
			t.Fatal(err)
		}
		if _, local := d.(driver.LocalDriver); !local && !strings.Contains(string(chart), `"`+s.Scheme+`" (list `) {
			t.Errorf("the chart's shardctl.storePorts has no port of %s", s.Scheme)
		}
	}
}

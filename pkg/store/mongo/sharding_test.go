package mongo

import (
	"os"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// The manual quotes what is reported where a user may not see how documents are sharded.
func TestUnseenShardingIsAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	p := unseenSharding("shardctl." + collectionName("default", driver.Table()[0].Kind))
	_, section, found := strings.Cut(string(page), "## "+p.Reason+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found || !strings.Contains(section, "\n"+p.Message+"\n") {
		t.Errorf("problems.md does not quote %q", p.Message)
	}
}

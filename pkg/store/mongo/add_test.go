package mongo

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// A document that cannot be read is named once, by all that is wrong with it; a part that can be is a document.
func TestUnreadableDocumentsAreNamedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		doc       bson.M
		docs, bad int
	}{
		"read":          {bson.M{"_id": "g/a", "rev": 5}, 1, 0},
		"read in part":  {bson.M{"_id": "g/a", "rev": 5, "session": 12}, 1, 1},
		"no revision":   {bson.M{"_id": "g/a"}, 0, 1},
		"a rev of text": {bson.M{"_id": "g/a", "rev": "one"}, 0, 1},
		"no text as id": {bson.M{"_id": 7, "rev": 5}, 0, 1},
	} {
		raw, err := bson.Marshal(tc.doc)
		if err != nil {
			t.Fatal(err)
		}
		var page dbstore.Page
		add(&page, driver.KindLock, raw)
		if len(page.Docs) != tc.docs || len(page.Unreadable) != tc.bad {
			t.Errorf("%s: %d documents, %d unreadable; want %d, %d: %+v", name, len(page.Docs), len(page.Unreadable),
				tc.docs, tc.bad, page)
		}
	}
}

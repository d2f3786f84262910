package decode_test

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

func ExampleExpand() {
	vars := map[string]string{"TOPIC": "orders"}
	lookup := func(name string) (string, bool) { value, ok := vars[name]; return value, ok }
	for _, text := range []string{"--topic=$(TOPIC)", "$(LEVEL:-info)", "$$(date)", "$(LEVEL)"} {
		value, err := decode.Expand(text, lookup)
		fmt.Println(value, err)
	}
	// Output:
	// --topic=orders <nil>
	// info <nil>
	// $(date) <nil>
	//  $(LEVEL) is not set and has no default
}

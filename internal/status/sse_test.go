package status

import (
	"bufio"
	"io"
	"strings"
)

// readStream reads server-sent events: lines of data are joined.
func readStream(r io.Reader, handle func(kind, id string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	var kind, id, data string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && data != "":
			if err := handle(kind, id, []byte(data)); err != nil {
				return err
			}
			kind, data = "", ""
		case field == "event":
			kind = value
		case field == "id":
			id = value
		case field == "data":
			data += value
		}
	}
	return lines.Err()
}

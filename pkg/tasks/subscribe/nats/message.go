package nats

import (
	"maps"
	"slices"
	"strings"

	natsio "github.com/nats-io/nats.go"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// typeHeader holds a message's media type.
const typeHeader = "Content-Type"

// messageOf is what a message of NATS holds. Its key is the subject: order is kept within one.
func messageOf(subject string, header natsio.Header, body []byte) subscribe.Message {
	m := subscribe.Message{Key: []byte(subject), Body: body, Headers: make(map[string]string, len(header))}
	for name, values := range header {
		if name == typeHeader && len(values) == 1 {
			m.Type = values[0]
		} else {
			m.Headers[name] = strings.Join(values, ", ")
		}
	}
	return m
}

// oneLine takes the place of what ends a header.
var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// letter is a message for a subject of dead letters.
func letter(to string, m subscribe.Message, headers map[string]string) *natsio.Msg {
	msg := natsio.NewMsg(to)
	msg.Data = m.Body
	for _, all := range []map[string]string{m.Headers, headers} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			// What JetStream takes for a request to itself, such as a rollup, was for the other stream.
			if !strings.HasPrefix(name, "Nats-") {
				msg.Header.Set(name, oneLine.Replace(all[name]))
			}
		}
	}
	if m.Type != "" {
		msg.Header.Set(typeHeader, m.Type)
	}
	return msg
}

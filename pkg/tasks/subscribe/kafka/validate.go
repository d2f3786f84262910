package kafka

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
)

// maxMaxBytes keeps an answer of several partitions within what a broker's numbers can say.
const maxMaxBytes = 1 << 28

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// Validate checks every field that holds no variable. What comes in by variables is checked at Open.
func (s Source) Validate() []decode.FieldError {
	wrong := slices.Concat(s.validateBrokers(), s.validatePartitions(), s.SASL.validate(), s.TLS.files().Validate())
	if err := checkTopic(s.TopicName); err != "" && !decode.HasVariables(s.TopicName) {
		wrong = append(wrong, decode.FieldError{Path: []string{"topic"}, Message: err})
	}
	if _, _, err := parseStart(s.Start); err != nil {
		wrong = append(wrong, decode.FieldError{Path: []string{"start"}, Must: startMust})
	}
	wrong = append(wrong, oneOf("missing", s.Missing, Earliest, Latest, Stop)...)
	wrong = append(wrong, oneOf("offsets", s.Offsets, Broker, Store)...)
	wrong = append(wrong, oneOf("isolation", s.Isolation, ReadCommitted, ReadUncommitted)...)
	if s.MaxBytes < 0 || s.MaxBytes > maxMaxBytes {
		must := fmt.Sprintf("a whole number of bytes from 1 to %d", maxMaxBytes)
		wrong = append(wrong, decode.FieldError{Path: []string{"maxBytes"}, Must: must})
	}
	return wrong
}

func (s Source) validateBrokers() []decode.FieldError {
	path := []string{"brokers"}
	if len(s.Brokers) == 0 || len(s.Brokers) == 1 && strings.TrimSpace(s.Brokers[0]) == "" {
		return []decode.FieldError{{Path: path, Message: "is required: HOST:PORT of one broker or more"}}
	}
	var wrong []decode.FieldError
	for i, text := range s.Brokers {
		if decode.HasVariables(text) {
			continue
		}
		parts := access.Addresses([]string{text})
		if len(parts) == 0 || slices.ContainsFunc(parts, func(part string) bool { return !isAddress(part) }) {
			at := path // which may be text, and not a list
			if len(s.Brokers) > 1 {
				at = []string{"brokers", strconv.Itoa(i)}
			}
			wrong = append(wrong, decode.FieldError{Path: at, Message: "must be " + addressMust})
		}
	}
	return wrong
}

const addressMust = "HOST:PORT of a broker, without a scheme, or several with commas between"

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && number > 0 && host != "" && !strings.ContainsAny(host, "/@ ")
}

func (s Source) validatePartitions() []decode.FieldError {
	var wrong []decode.FieldError
	for i, p := range s.Partitions {
		path := []string{"partitions", strconv.Itoa(i)}
		switch {
		case p < 0:
			wrong = append(wrong, decode.FieldError{Path: path, Must: "a whole number from 0"})
		case slices.Contains(s.Partitions[:i], p):
			message := fmt.Sprintf("is %d, which stands there twice", p)
			wrong = append(wrong, decode.FieldError{Path: path, Message: message})
		}
	}
	return wrong
}

// checkTopic says what is wrong with a topic's name; empty: nothing.
func checkTopic(name string) string {
	switch {
	case name == "":
		return "is required"
	case !topicName.MatchString(name) || name == "." || name == "..":
		return fmt.Sprintf("is %q, must be at most 249 letters, digits, '.', '_' and '-'", decode.Clipped(name))
	}
	return ""
}

func oneOf(field, value string, allowed ...string) []decode.FieldError {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	last := len(allowed) - 1
	must := strings.Join(allowed[:last], ", ") + " or " + allowed[last]
	return []decode.FieldError{{Path: []string{field}, Must: must}}
}

const startMust = "earliest, latest or a time such as 2026-01-31T12:00:00Z"

// parseStart reads where to begin: the time is zero for earliest and latest.
func parseStart(text string) (latest bool, at time.Time, err error) {
	switch text {
	case "", Earliest:
		return false, time.Time{}, nil
	case Latest:
		return true, time.Time{}, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	return false, at, err
}

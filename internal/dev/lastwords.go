package dev

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
)

// tail bounds what is read of a log, in bytes.
const tail = 8 << 10

// lastWords is the last line of a log, as a person would say it; otherwise when there is none.
func lastWords(file, otherwise string) string {
	f, err := os.Open(file) //nolint:gosec // G304: in a directory of our own
	if err != nil {
		return otherwise
	}
	defer func() { _ = f.Close() }() // only read
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		_, _ = f.Seek(-tail, io.SeekEnd) // on an error more is read than needed
	}
	content, err := io.ReadAll(f)
	content = bytes.TrimSpace(content)
	if err != nil || len(content) == 0 {
		return otherwise
	}
	return sentence(string(content[bytes.LastIndexByte(content, '\n')+1:]))
}

// sentence is the message of a log line in JSON; any other line as it is.
func sentence(line string) string {
	var entry struct{ Msg, Error string }
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg == "" {
		return strings.TrimPrefix(line, "error: ")
	}
	if entry.Error != "" {
		return entry.Msg + ": " + entry.Error
	}
	return entry.Msg
}

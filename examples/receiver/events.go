package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/shardctl/shardctl/pkg/fence"
	"github.com/shardctl/shardctl/pkg/fence/fencehttp"
)

// delivered is what one request brings.
type delivered struct {
	claim  fence.Claim // its key is that of the task, GROUP/NAME
	batch  bool
	events []event
}

// event is as much of a CloudEvent as this receiver looks at.
type event struct {
	ID   string
	Type string // of Data
	Data []byte
}

// readRequest reads a request in binary or batched mode.
func readRequest(header http.Header, body []byte) (delivered, error) {
	var d delivered
	var err error
	if d.claim, err = fencehttp.Claim(header); err != nil {
		return d, err
	}
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type")) // an odd one is that of a message
	if d.batch = media == "application/cloudevents-batch+json"; d.batch {
		d.events, err = readBatch(body)
		return d, err
	}
	id, err := url.PathUnescape(header.Get("Ce-Id")) // attributes in headers are percent-encoded
	if err != nil || id == "" {
		return d, errors.New("Ce-Id must be set: messages are CloudEvents in binary or batched mode")
	}
	d.events = []event{{ID: id, Type: header.Get("Content-Type"), Data: body}}
	return d, nil
}

func readBatch(body []byte) ([]event, error) {
	var all []struct {
		ID         string          `json:"id"`
		Type       string          `json:"datacontenttype"`
		Data       json.RawMessage `json:"data"`
		DataBase64 []byte          `json:"data_base64"`
	}
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, fmt.Errorf("the batch cannot be read: %w", err)
	}
	events := make([]event, len(all))
	for i, e := range all {
		events[i] = event{ID: e.ID, Type: e.Type, Data: e.DataBase64}
		if e.Data == nil {
			continue
		}
		events[i].Data = e.Data
		// What is no JSON stands there as a string.
		if media, _, _ := mime.ParseMediaType(e.Type); media != "" && !strings.HasSuffix(media, "json") {
			var text string
			if err := json.Unmarshal(e.Data, &text); err != nil {
				return nil, fmt.Errorf("data of %s: %w", e.ID, err)
			}
			events[i].Data = []byte(text)
		}
	}
	return events, nil
}

// answer says which messages failed: of a batch by their IDs.
func answer(w http.ResponseWriter, d delivered, failed map[string]string) {
	switch {
	case len(failed) == 0:
		w.WriteHeader(http.StatusNoContent)
	case d.batch:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMultiStatus)
		_ = json.NewEncoder(w).Encode(map[string]any{"failed": failed}) // who asked may have gone
	default:
		http.Error(w, failed[d.events[0].ID], http.StatusUnprocessableEntity)
	}
}

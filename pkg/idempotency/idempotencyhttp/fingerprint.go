package idempotencyhttp

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"

	"github.com/shardctl/shardctl/pkg/idempotency"
)

// fingerprint is of the method, the URL, and the body. Where somebody before the middleware has parsed a form, the body
// is empty, and the form stands for it.
func fingerprint(r *http.Request, body []byte) (string, error) {
	parts := [][]byte{[]byte(r.Method), []byte(r.URL.RequestURI()), body}
	if len(r.PostForm) > 0 {
		parts = append(parts, []byte(r.PostForm.Encode()))
	}
	if r.MultipartForm != nil {
		for _, field := range slices.Sorted(maps.Keys(r.MultipartForm.File)) {
			for _, file := range r.MultipartForm.File[field] {
				sum, err := sumOf(file)
				if err != nil {
					return "", err
				}
				parts = append(parts, []byte(field), []byte(file.Filename), sum)
			}
		}
	}
	return idempotency.Fingerprint(parts...), nil
}

func sumOf(header *multipart.FileHeader) ([]byte, error) {
	file, err := header.Open()
	if err != nil {
		return nil, fmt.Errorf("file %.80q of the form: %w", header.Filename, err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return nil, fmt.Errorf("file %.80q of the form: %w", header.Filename, err)
	}
	return sum.Sum(nil), nil
}

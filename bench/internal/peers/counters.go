//go:build linux

package peers

import (
	"bufio"
	"context"
	"crypto/tls"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// between makes rates of counters that are read before and after a window.
func between(read func(context.Context) (rates, error)) func(context.Context, time.Duration) (rates, error) {
	return func(ctx context.Context, window time.Duration) (rates, error) {
		before, err := read(ctx)
		if err != nil {
			return rates{}, err
		}
		begin := time.Now()
		if err := lab.Pause(ctx, window); err != nil {
			return rates{}, err
		}
		seconds := time.Since(begin).Seconds()
		after, err := read(ctx)
		return rates{
			writes: (after.writes - before.writes) / seconds,
			reads:  (after.reads - before.reads) / seconds,
		}, err
	}
}

// metrics are lines of the Prometheus text format.
type metrics []string

func scrape(ctx context.Context, url, token string) (metrics, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	//nolint:gosec // on the loopback interface
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	var m metrics
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m = append(m, lines.Text())
	}
	return m, lines.Err()
}

// sum adds up the series of a metric that have these labels.
func (m metrics) sum(name string, labels ...string) (total float64) {
	for _, line := range m {
		series, value, _ := strings.Cut(line, " ")
		if strings.HasPrefix(series, "#") || series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		has := true
		for _, label := range labels {
			has = has && strings.Contains(series, label)
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil && has {
			total += v
		}
	}
	return total
}

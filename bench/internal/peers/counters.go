//go:build linux

package peers

import (
	"context"
	"crypto/tls"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/clock"
)

// between makes rates of counters that are read before and after a window.
func between(read func(context.Context) (rates, error)) func(context.Context, time.Duration) (rates, error) {
	return func(ctx context.Context, window time.Duration) (rates, error) {
		before, err := read(ctx)
		if err != nil {
			return rates{}, err
		}
		begin := time.Now()
		if err := clock.Sleep(ctx, window); err != nil {
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
	text, err := get(ctx, url, token)
	return strings.Split(string(text), "\n"), err
}

// get returns what a URL answers with 200.
func get(ctx context.Context, url, token string) ([]byte, error) {
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
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return text, err
}

// versionAt is what the JSON at a URL says in a field.
func versionAt(ctx context.Context, url, token, field string) string {
	text, err := get(ctx, url, token)
	if err != nil {
		return "?"
	}
	var said map[string]string
	if json.Unmarshal(text, &said) != nil || said[field] == "" {
		return "?"
	}
	return strings.TrimPrefix(said[field], "v")
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

// redisCalls counts commands that write and that read, those inside scripts included.
func redisCalls(ctx context.Context, addr string) (rates, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }() // only read
	commands, err := client.Command(ctx).Result()
	if err != nil {
		return rates{}, err
	}
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return rates{}, err
	}
	var r rates
	for line := range strings.Lines(text) {
		var calls float64
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if _, err := fmt.Sscanf(rest, "calls=%f,", &calls); err != nil {
			continue
		}
		switch info := commands[name]; {
		case info == nil:
		case slices.Contains(info.Flags, "write"):
			r.writes += calls
		case slices.Contains(info.Flags, "readonly"):
			r.reads += calls
		}
	}
	return r, nil
}

// postgresRows counts rows that were written, and transactions that ended, in the database of a connection.
func postgresRows(ctx context.Context, db *sql.DB) (r rates, err error) {
	const counts = `SELECT tup_inserted + tup_updated + tup_deleted, xact_commit + xact_rollback
		FROM pg_stat_database WHERE datname = current_database()`
	err = db.QueryRowContext(ctx, counts).Scan(&r.writes, &r.reads)
	return r, err
}

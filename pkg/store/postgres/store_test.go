package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

func TestStore(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return database(server.Database())
	})
}

func database(uri string) storetest.Database {
	return storetest.Database{
		Quiet: true, Neighbour: storetest.Neighbour(uri),
		Open: func(ctx context.Context) (driver.Store, error) { return opened(ctx, uri) },
		ShiftSchema: func(ctx context.Context, by int) error {
			return postgres.Exec(ctx, uri, fmt.Sprintf(`UPDATE "default_schema" SET version = version + %d`, by))
		},
		Forget: func(ctx context.Context, kind driver.Kind) error {
			return postgres.Exec(ctx, uri, `DROP TABLE default_steps, "default_`+kind.Info().Plural+`"`)
		},
		Spoil: func(ctx context.Context, kind driver.Kind, id string) error {
			return postgres.Exec(ctx, uri, `UPDATE "default_`+kind.Info().Plural+`" SET rev = 0 WHERE id = '`+id+`'`)
		},
		Examined: func(ctx context.Context, kind driver.Kind, q driver.Query) (int64, error) {
			return examined(ctx, uri, kind, q)
		},
	}
}

func opened(ctx context.Context, uri string) (driver.Store, error) {
	s, err := postgres.Open(ctx, postgres.Options{URI: uri})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// plan is a node of EXPLAIN's answer.
type plan struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []plan
}

// examined is how many rows, or entries of an index, a List looks at.
func examined(ctx context.Context, uri string, kind driver.Kind, q driver.Query) (int64, error) {
	conn, err := pgx.Connect(ctx, uri)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, `ANALYZE`); err != nil {
		return 0, err
	}
	s, err := postgres.Open(ctx, postgres.Options{URI: uri, Existing: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close(ctx) }()
	text, args := sqlstore.Of(s).ListStatement(kind, q)
	var answer []byte
	if err := conn.QueryRow(ctx, `EXPLAIN (ANALYZE, FORMAT JSON) `+text, args...).Scan(&answer); err != nil {
		return 0, err
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(answer, &plans); err != nil {
		return 0, err
	}
	return int64(plans[0].Plan.looked()), nil
}

// looked adds up what the scans of a plan looked at.
func (p plan) looked() (n float64) {
	if len(p.Plans) == 0 {
		n = (p.Rows + p.Removed) * p.Loops
	}
	for _, below := range p.Plans {
		n += below.looked()
	}
	return n
}

//go:build unix

package testbroker

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"path/filepath"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/internal/toolcache"
)

var (
	//go:embed kafka_pom.xml
	kafkaPOM []byte
	//go:embed kafka_jars.sha256
	kafkaSums []byte
	//go:embed kafka_log4j2.properties
	kafkaLog4j []byte
)

// kafkaJars returns the directory with the broker's jars, in the user's cache. Another list of jars is another
// directory.
func kafkaJars(ctx context.Context) (string, error) {
	list := sha256.Sum256(kafkaSums)
	name := filepath.Join("shardctl-test", "kafka-"+hex.EncodeToString(list[:6]))
	jars := toolcache.Jars{POM: kafkaPOM, Sums: kafkaSums}
	return toolcache.Program(ctx, name, func(ctx context.Context, dir, target string) error {
		mvn, err := testprocess.Program(string(KindKafka), "maven", "mvn")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, kafkaJarsTimeout)
		defer cancel()
		if err := jars.Fetch(ctx, mvn, dir, target); err != nil {
			return testprocess.Missing(string(KindKafka), "Maven cannot fetch its jars: %w", err)
		}
		return jars.Verify(target)
	})
}

//go:build linux

package peers

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/testprocess"
	"github.com/shardctl/shardctl/internal/toolcache"
)

var (
	//go:embed redisson/pom.xml
	redissonPOM []byte
	//go:embed redisson/jars.sha256
	redissonSums []byte
	//go:embed redisson/Holder.java
	redissonHolder []byte
)

// redisson is the command of a Holder in Java. Its jars come from Maven, and are checked against their hashes. It is
// compiled once, beside them. The error wraps testprocess.ErrMissing where there is no Java.
func redisson(ctx context.Context) ([]string, error) {
	of := sha256.Sum256(slices.Concat(redissonSums, redissonHolder))
	name := filepath.Join("shardctl-bench", "redisson-"+hex.EncodeToString(of[:6]))
	java, err := testprocess.Program("Redisson", "default-jdk-headless", "java")
	if err != nil {
		return nil, err
	}
	dir, err := toolcache.Program(ctx, name, makeRedisson)
	if err != nil {
		return nil, err
	}
	return []string{java, "-XX:+UseSerialGC", "-Xmx256m", "-cp", dir + ":" + filepath.Join(dir, "*"), "Holder"}, nil
}

func makeRedisson(ctx context.Context, dir, target string) error {
	mvn, err := testprocess.Program("Redisson", "maven", "mvn")
	if err != nil {
		return err
	}
	javac, err := testprocess.Program("Redisson", "default-jdk-headless", "javac")
	if err != nil {
		return err
	}
	jars := toolcache.Jars{POM: redissonPOM, Sums: redissonSums}
	if err := jars.Fetch(ctx, mvn, dir, target); err != nil {
		return testprocess.Missing("Redisson", "Maven cannot fetch its jars: %w", err)
	}
	if err := jars.Verify(target); err != nil {
		return err
	}
	source := filepath.Join(dir, "Holder.java")
	if err := os.WriteFile(source, redissonHolder, 0o600); err != nil {
		return err
	}
	//nolint:gosec // our arguments
	out, err := exec.CommandContext(ctx, javac, "-cp", filepath.Join(target, "*"), "-d", target,
		source).CombinedOutput()
	if err != nil {
		return fmt.Errorf("javac: %w: %s", err, out)
	}
	return nil
}

// redissonVersion is that of the jar in the list.
func redissonVersion() string {
	for line := range strings.Lines(string(redissonSums)) {
		if _, rest, found := strings.Cut(line, "  redisson-"); found {
			return strings.TrimSuffix(strings.TrimSpace(rest), ".jar")
		}
	}
	return "?"
}

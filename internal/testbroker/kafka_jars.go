//go:build unix

package testbroker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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
	return toolcache.Program(ctx, name, func(ctx context.Context, dir, target string) error {
		if err := fetchKafka(ctx, dir, target); err != nil {
			return err
		}
		return verify(target, kafkaSums)
	})
}

// fetchKafka has Maven copy the jars to target. It uses the repositories that are configured.
func fetchKafka(ctx context.Context, dir, target string) error {
	mvn, err := testprocess.Program(string(KindKafka), "maven", "mvn")
	if err != nil {
		return err
	}
	pom := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(pom, kafkaPOM, 0o600); err != nil {
		return fmt.Errorf("fetch Kafka: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaJarsTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-Dstyle.color=never", "-f", pom, //nolint:gosec // our arguments
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+target)
	if out, err := cmd.CombinedOutput(); err != nil {
		return testprocess.Missing(string(KindKafka), "Maven cannot fetch its jars: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// verify compares a directory with lines of sha256sum: the same files, with those hashes.
func verify(dir string, sums []byte) error {
	var problems []error
	want := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		want[name] = sum
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("verify the jars: %w", err)
	}
	for _, f := range files {
		got, err := sha256File(filepath.Join(dir, f.Name()))
		switch {
		case err != nil:
			problems = append(problems, err)
		case want[f.Name()] == "":
			problems = append(problems, fmt.Errorf("%s is not in the list", f.Name()))
		case want[f.Name()] != got:
			problems = append(problems, fmt.Errorf("SHA-256 of %s is %s, want %s", f.Name(), got, want[f.Name()]))
		}
		delete(want, f.Name())
	}
	for name := range want {
		problems = append(problems, fmt.Errorf("%s is missing", name))
	}
	if len(problems) > 0 {
		return fmt.Errorf("verify the jars: %w", errors.Join(problems...))
	}
	return nil
}

func sha256File(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // a file this package has just fetched
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

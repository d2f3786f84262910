//go:build unix

package testbroker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/toolcache"
)

// Ports of a Kafka broker.
const (
	kafkaClients    = iota
	kafkaController // in the same JVM
	kafkaLinked     // for clients of a link
	kafkaLink       // what those clients dial: the link's
	kafkaPorts
)

// kafka is a broker and its controller in one JVM (KRaft), or a second broker beside one.
type kafka struct {
	java, jars string
	first      *testprocess.Site // nil: it is the first
}

func (k *kafka) Ports() int { return kafkaPorts }

func (k *kafka) Provide(ctx context.Context) (err error) {
	if k.java, err = testprocess.Program(string(KindKafka), "default-jre-headless", "java"); err != nil {
		return err
	}
	k.jars, err = kafkaJars(ctx)
	return err
}

func (k *kafka) Prepare(ctx context.Context, s *testprocess.Site) error {
	err := errors.Join(s.Write("server.properties", k.properties(s)...),
		os.WriteFile(s.Path("log4j2.properties"), kafkaLog4j, 0o600))
	if err != nil {
		return fmt.Errorf("configuration of the broker: %w", err)
	}
	if _, err := os.Stat(s.Path("log/meta.properties")); err == nil {
		return nil // formatted at its first start
	}
	id, err := k.clusterID()
	if err != nil {
		return err
	}
	args := append(k.jvm(s), "kafka.tools.StorageTool", "format", "--cluster-id", id, "--config",
		s.Path("server.properties"))
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("format the directory of Kafka: %w: %s", err, out)
	}
	return nil
}

// clusterID is a new one, or that of the first broker.
func (k *kafka) clusterID() (string, error) {
	if k.first == nil {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // it never fails
		id[0] &= 0x7f        // the first letter is no dash, which would look like an option
		return base64.RawURLEncoding.EncodeToString(id), nil
	}
	text, err := os.ReadFile(k.first.Path("log/meta.properties"))
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster.id="); ok {
			return id, nil
		}
	}
	return "", fmt.Errorf("the first broker has no cluster.id: %w", err)
}

func (k *kafka) properties(s *testprocess.Site) []string {
	listeners := []string{"PLAINTEXT://" + s.Addr(kafkaClients), "LINKED://" + s.Addr(kafkaLinked)}
	roles, id, controller := "broker", "2", k.first
	if k.first == nil {
		roles, id, controller = "broker,controller", "1", s
		listeners = append(listeners, "CONTROLLER://"+s.Addr(kafkaController))
	}
	return []string{
		"process.roles=" + roles,
		"node.id=" + id,
		"listeners=" + strings.Join(listeners, ","),
		"advertised.listeners=PLAINTEXT://" + s.Addr(kafkaClients) + ",LINKED://" + s.Addr(kafkaLink),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LINKED:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"controller.quorum.voters=1@" + controller.Addr(kafkaController),
		"log.dirs=" + s.Path("log"),
		"auto.create.topics.enable=false",
		"num.partitions=1",
		"default.replication.factor=1",
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=4",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"transaction.state.log.num.partitions=4",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
		"share.coordinator.state.topic.num.partitions=4",
		// No wait for further members of a new group.
		"group.initial.rebalance.delay.ms=0",
		// Clients of the newer group protocol cannot choose these, and by default they are 45 s and 5 s at least.
		"group.consumer.min.session.timeout.ms=1000",
		"group.consumer.min.heartbeat.interval.ms=100",
		// After a kill the broker waits for the end of its own session, which is 9 s by default.
		"broker.session.timeout.ms=3000",
		"broker.heartbeat.interval.ms=500",
		"log.cleaner.dedupe.buffer.size=4194304",
		"num.network.threads=2",
		"num.io.threads=4",
	}
}

func (k *kafka) jvm(s *testprocess.Site) []string {
	return []string{
		k.java, "-Xmx768m", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true",
		"-Dlog4j2.configurationFile=" + s.Path("log4j2.properties"), "-cp", filepath.Join(k.jars, "*"),
	}
}

func (k *kafka) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: append(k.jvm(s), "kafka.Kafka", s.Path("server.properties"))}}
}

// apiVersions is a request that everyone may send, before a login too: key 18, version 0, no name of a client.
var apiVersions = []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}

// Ready asks for the versions of the protocol. The broker reads no request before its log is recovered.
func (k *kafka) Ready(ctx context.Context, s *testprocess.Site) error {
	reply := make([]byte, 10)
	if err := testprocess.Ask(ctx, s.Addr(kafkaClients), apiVersions, reply); err != nil {
		return err
	}
	if code := binary.BigEndian.Uint16(reply[8:]); code != 0 {
		return fmt.Errorf("error %d of Kafka", code)
	}
	return nil
}

// kafkaJarsTimeout bounds one fetch by Maven.
const kafkaJarsTimeout = 5 * time.Minute

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

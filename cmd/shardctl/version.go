package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
)

// version and revision are set by the linker for releases.
var (
	version  = "dev"
	revision string
)

// commit is the revision that the program was built from, as far as the build knows.
func commit() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}

// binaryRevision names this very program: its version and a hash of its file. Replicas with another one are older or
// newer.
func binaryRevision() string {
	path, err := os.Executable()
	if err != nil {
		return version
	}
	file, err := os.Open(path) //nolint:gosec // this program's own file
	if err != nil {
		return version
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return version
	}
	return version + "-" + hex.EncodeToString(sum.Sum(nil))[:12]
}

// about is what is known of this program.
type about struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"` // OS/ARCHITECTURE
}

func build() about {
	return about{version, commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// String is one line.
func (a about) String() string {
	return fmt.Sprintf("shardctl %s (revision %s, %s, %s)", a.Version, a.Revision, a.GoVersion, a.Platform)
}

func versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: arguments(cobra.NoArgs),
		Example: "  shardctl version\n  shardctl version -o jsonpath=.version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := cli.ParseOutput(output)
			if err != nil {
				return err
			}
			if o.Table() {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), build())
				return err
			}
			return o.Write(cmd.OutOrStdout(), build())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", cli.OutputUsage)
	return cmd
}

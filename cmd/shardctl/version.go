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

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(
				cmd.OutOrStdout(), "shardctl %s (revision %s, %s, %s/%s)\n", version, commit(), runtime.Version(),
				runtime.GOOS, runtime.GOARCH,
			)
			return err
		},
	}
}

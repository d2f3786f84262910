//go:build linux

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "say what to do"},
		{[]string{"bulid"}, `there is no command "bulid"`},
		{[]string{"build"}, "nothing to write: give --out, --archive or --push"},
		{[]string{"build", "--out", "x", "stray"}, `"stray": no arguments are expected`},
		{
			[]string{"build", "--out", "x", "--platform", "linux/arm"},
			`--platform "linux/arm": want some of [linux/amd64 linux/arm64]`,
		},
		{[]string{"build", "--out", "x", "--platform", "linux/amd64,linux/amd64"}, "given twice"},
		{
			[]string{"build", "--archive", "x.tar"},
			"--archive x.tar: one file holds one platform; write {arch} into its name",
		},
		{[]string{"build", "--out", "x", "--sbom", "x.json"}, "--sbom x.json: one file holds one platform"},
		{[]string{"build", "--out", "x", "--tag", "No Such:tag"}, "--tag: "},
		{[]string{"build", "--push", "a b"}, "--push: "},
		{[]string{"build", "--out", "x", "--label", "team"}, `"team": want NAME=VALUE`},
		{[]string{"build", "--out", "x", "--add", "file"}, `"file": want SOURCE=/path/in/image`},
		{[]string{"build", "--out", "x", "--add", "file=bin/file"}, `"bin/file" is no clean, absolute path`},
		{[]string{"build", "--out", "x", "--add", "file=/../file"}, `"/../file" is no clean, absolute path`},
		{[]string{"build", "--out", "x", "--add", "a=/file", "--add-go", "./b=/file"}, "/file is added twice"},
		{[]string{"build", "--out", "x", "--add", "a=/shardctl"}, "the image has /shardctl already"},
		{[]string{"build", "--out", "x", "--add", "a=/etc/passwd"}, "the image has /etc/passwd already"},
		{[]string{"build", "--out", "x", "--version", "v 1", "--revision", "a"}, `--version "v 1": letters, digits`},
		{[]string{"rootfs", "--to", "x"}, "rootfs needs --to and one --platform"},
		{[]string{"rootfs", "--platform", "linux/amd64"}, "rootfs needs --to and one --platform"},
	} {
		if got := fails(t, 2, c.args...); !strings.Contains(got, c.want) {
			t.Errorf("image %s: %s: want %q", strings.Join(c.args, " "), got, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"build", "--help"}, &out, &errs); code != 0 ||
		!strings.Contains(errs.String(), "-entrypoint") {
		t.Errorf("exit code %d: %s%s", code, &out, &errs)
	}
	if got := image(t, "--help"); !strings.Contains(got, "rootfs") {
		t.Error(got)
	}
}

// What the image could not start, or would not be right on each platform, is refused before anybody finds it on a
// cluster.
func TestUnfitAdditions(t *testing.T) {
	b := whole(t)
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", testEpoch)
	build := func(platform, add string) string {
		return fails(
			t, 1, "build", "--source", b.tree, "--version", testVersion, "--revision", testRevision, "--platform",
			platform, "--out", filepath.Join(dir, "layout"), add,
		)
	}
	other := filepath.Join(dir, "arm64")
	if err := os.WriteFile(
		other, files(t, platformImage(t, b.index, supported[1]))["/shardctl"].data, 0o700,
	); err != nil {
		t.Fatal(err)
	}
	dynamic := filepath.Join(dir, "dynamic")
	if err := os.WriteFile(dynamic, dynamicProgram(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for add, want := range map[string]string{
		"--add=" + filepath.Join(dir, "missing") + "=/missing": "missing: no such file",
		"--add=" + dir + "=/dir":                               "is no regular file",
		"--add=" + dynamic + "=/dynamic":                       "is linked dynamically, and the image has no libraries",
		"--add=" + other + "=/other":                           "is for EM_AARCH64, not for linux/amd64",
		"--add-go=./no/such/package=/other":                    "go build ./no/such/package for linux/amd64",
	} {
		if got := build("linux/amd64", add); !strings.Contains(got, want) {
			t.Errorf("%s: %s: want %q", add, got, want)
		}
	}
}

// dynamicProgram is the head of a program for amd64 that asks for a dynamic linker, which is all that distinguishes it.
func dynamicProgram(t *testing.T) []byte {
	t.Helper()
	const linker = "/lib64/ld-linux-x86-64.so.2\x00"
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{
			0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT),
		},
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 64 + 56, Filesz: uint64(len(linker))}
	var out bytes.Buffer
	for _, part := range []any{header, segment, []byte(linker)} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestOutReplacesLayoutsOnly(t *testing.T) {
	b := whole(t)
	dir := t.TempDir()
	keep := filepath.Join(dir, "keep")
	if err := os.WriteFile(keep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := &options{tag: "shardctl:1", out: dir}
	if err := o.writeLayout(b.index, nil); err == nil ||
		!strings.Contains(err.Error(), "holds something else than an OCI layout") {
		t.Errorf("a directory that holds something: %v", err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error(err)
	}
	o.out = filepath.Join(dir, "layout")
	for range 2 {
		if err := o.writeLayout(b.index, nil); err != nil {
			t.Fatal(err)
		}
	}
}

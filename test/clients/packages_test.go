package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// copied is a copy of a library, since what installs from it writes there.
func copied(t *testing.T, library string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), library)
	if err := os.CopyFS(dir, os.DirFS(clients(t, library))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestInstallPython: pip installs the library into an environment of its own, with its types.
func TestInstallPython(t *testing.T) {
	need(t, "python3")
	if exec.CommandContext(t.Context(), "python3", "-c", "import ensurepip").Run() != nil {
		need(t, "python3-venv") // no program: it is missing
	}
	source, dir := copied(t, "python"), t.TempDir()
	args := []string{"install", "-q", "--disable-pip-version-check", "--no-deps", source}
	run(t, dir, "python3", "-m", "venv", "--system-site-packages", "env")
	if exec.CommandContext(t.Context(), "python3", "-c", "import setuptools, wheel").Run() == nil {
		args = append(args, "--no-build-isolation") // nothing has to be fetched
	}
	run(t, dir, "env/bin/python", append([]string{"-m", "pip"}, args...)...)
	out := run(t, dir, "env/bin/python", "-c", `import importlib.metadata, pathlib, shardctl
print(importlib.metadata.version("shardctl"), pathlib.Path(shardctl.__file__).with_name("py.typed").exists(),
      shardctl.slot("tenant-1", 256))`)
	if out != "0.1.0 True 80\n" {
		t.Error(out)
	}
}

// TestInstallTypeScript: npm packs the library and installs the archive, with its types and without dependencies.
func TestInstallTypeScript(t *testing.T) {
	need(t, "node", "npm")
	dir := t.TempDir()
	run(t, copied(t, "typescript"), "npm", "pack", "--silent", "--pack-destination", dir)
	service := []byte(`{"name": "service", "type": "module"}`)
	if err := os.WriteFile(filepath.Join(dir, "package.json"), service, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "npm", "install", "--silent", "--offline", "--no-audit", "--no-fund", "./shardctl-0.1.0.tgz")
	out := run(t, dir, "node", "--input-type=module", "-e",
		`import { connect, slot } from "shardctl"; console.log(typeof connect, slot("tenant-1", 256));`)
	if out != "function 80\n" {
		t.Error(out)
	}
	for _, file := range []string{"index.d.ts", "README.md", "package.json"} {
		if _, err := os.Stat(filepath.Join(dir, "node_modules/shardctl", file)); err != nil {
			t.Error(err)
		}
	}
}

// TestInstallJava: Maven makes a jar where it has its plugins; else the compiler and jar of the JDK do.
func TestInstallJava(t *testing.T) {
	need(t, "java", "javac", "jar")
	source, jar := copied(t, "java"), filepath.Join(t.TempDir(), "shardctl.jar")
	mvn := exec.CommandContext(t.Context(), "mvn", "-o", "-q", "package")
	mvn.Dir = source
	if out, err := mvn.CombinedOutput(); err == nil {
		jar = filepath.Join(source, "target/shardctl-0.1.0.jar")
	} else if text := err.Error() + string(out); strings.Contains(text, "offline") || strings.Contains(text, "not found") {
		t.Log("without Maven, or without its plugins")
		run(t, filepath.Dir(jar), "jar", "--create", "--file", jar, "-C", compileJava(t), ".")
	} else {
		t.Fatalf("%v\n%s", err, out)
	}
	check := filepath.Join(t.TempDir(), "Check.java")
	text := `class Check { public static void main(String[] a) {
  System.out.println(dev.shardctl.Application.slot("tenant-1", 256)); } }`
	if err := os.WriteFile(check, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, filepath.Dir(check), "java", "-cp", jar, check); out != "80\n" {
		t.Error(out)
	}
}

// TestLibrariesAreSmall: the file with the rules of each is short.
func TestLibrariesAreSmall(t *testing.T) {
	for _, file := range []string{
		"python/shardctl/__init__.py", "typescript/index.js", "java/src/main/java/dev/shardctl/Application.java",
	} {
		text, err := os.ReadFile(clients(t, file))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines >= 400 {
			t.Errorf("%s has %d lines, want fewer than 400", file, lines)
		}
	}
}

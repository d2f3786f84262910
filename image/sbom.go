package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const bundleModule = "golang.org/x/crypto/x509roots/fallback"

// materials is the SBOM of one platform's image, in CycloneDX. It has the modules that the linker put into the binary,
// as it says itself, the standard library, and the files round it. It has no serial number and no time but the
// source's: the same image, the same SBOM.
func (o *options) materials(p platform, c contents) ([]byte, error) {
	binary := c.program[0]
	info, err := buildinfo.Read(bytes.NewReader(binary.data))
	if err != nil {
		return nil, err
	}
	main := o.program(info, binary, p)
	parts := []cdx.Component{standardLibrary(info)}
	for _, m := range info.Deps {
		part, err := library(m)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	certs, err := authorities()
	if err != nil {
		return nil, err
	}
	parts = append(parts, certs)
	for _, f := range c.added {
		parts = append(parts, plainFile(f))
	}
	slices.SortFunc(parts, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: o.source.created.Format(time.RFC3339), Component: main}
	bom.Components = &parts
	bom.Dependencies = linked(main.BOMRef, info)
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

// program is the image's subject: shardctl itself.
func (o *options) program(info *buildinfo.BuildInfo, binary file, p platform) *cdx.Component {
	url := packageURL(info.Main.Path, o.source.version) + "?goarch=" + p.arch + "&goos=" + p.os
	return &cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeApplication, Name: title, Version: o.source.version, PackageURL: url,
		Description: description, Hashes: hashes(binary.data),
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: licenses}}},
		ExternalReferences: &[]cdx.ExternalReference{
			{Type: cdx.ERTypeVCS, URL: home, Comment: "revision " + o.source.revision},
		},
	}
}

// library is one module of the binary.
func library(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	url := moduleURL(m)
	part := cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Scope: cdx.ScopeRequired, Name: m.Path, Version: m.Version,
		PackageURL: url,
	}
	if m.Sum == "" {
		return part, nil
	}
	// A module's sum is a SHA-256 over the names and hashes of its files, as go.sum has it.
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil {
		return part, fmt.Errorf("sum %q of %s: %w", m.Sum, m.Path, err)
	}
	part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return part, nil
}

func moduleURL(m *debug.Module) string { return packageURL(m.Path, m.Version) }

// packageURL names a module as the purl specification wants it: in a version + and / are escaped.
func packageURL(module, version string) string {
	return "pkg:golang/" + module + "@" + strings.NewReplacer("+", "%2B", "/", "%2F").Replace(version)
}

// standardLibrary is named as scanners know it: by the version of Go.
func standardLibrary(info *buildinfo.BuildInfo) cdx.Component {
	version := strings.TrimPrefix(info.GoVersion, "go")
	url := packageURL("std", version)
	return cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Scope: cdx.ScopeRequired, Name: "std", Version: version,
		PackageURL: url,
	}
}

// authorities are the certificates, with the module that they come from, as this very program was linked with it.
func authorities() (cdx.Component, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cdx.Component{}, fmt.Errorf("this program does not know its own modules: build it in module mode")
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == bundleModule })
	if i < 0 {
		return cdx.Component{}, fmt.Errorf("this program is not linked with %s", bundleModule)
	}
	part := plainFile(file{path: bundlePath, data: certificates()})
	part.Version, part.PackageURL = info.Deps[i].Version, moduleURL(info.Deps[i])
	return part, nil
}

func plainFile(f file) cdx.Component {
	return cdx.Component{
		BOMRef: "file:" + f.path, Type: cdx.ComponentTypeFile, Name: path.Base(f.path), Description: f.path,
		Hashes: hashes(f.data),
	}
}

func hashes(data []byte) *[]cdx.Hash {
	sum := sha256.Sum256(data)
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
}

// linked says that the binary holds its modules. Which of them wanted which is not in it.
func linked(main string, info *buildinfo.BuildInfo) *[]cdx.Dependency {
	refs := []string{standardLibrary(info).BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		refs = append(refs, moduleURL(m))
	}
	slices.Sort(refs)
	return &[]cdx.Dependency{{Ref: main, Dependencies: &refs}}
}

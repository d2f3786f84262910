//go:build unix

package testprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// policyFile is what Debian's packages ask before they start their services.
const policyFile = "/usr/sbin/policy-rc.d"

// Install calls provide, and where that lacks something it installs Debian's packages and calls it again. Packages that
// are installed stay as they are. Services of packages are not started: tests start servers of their own. It needs root
// on Debian; elsewhere the error says what is missing. Where the variable of a [Family] is "none" it refuses.
func Install(ctx context.Context, packages []string, provide func(context.Context) error) error {
	err := provide(ctx)
	if none, is := errors.AsType[noneError](err); is {
		return fmt.Errorf("nothing is installed: %w", none)
	}
	if err == nil || !errors.Is(err, ErrMissing) {
		return err
	}
	apt, notFound := exec.LookPath("apt-get")
	if os.Geteuid() != 0 || notFound != nil {
		return fmt.Errorf("%w\n(root on Debian gets the packages installed by this command)", err)
	}
	allow, err := forbidServices()
	if err != nil {
		return err
	}
	defer allow()
	for _, args := range [][]string{
		{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, apt, args...) //nolint:gosec // fixed arguments
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return provide(ctx)
}

// forbidServices has packages start no service until allow is called. A policy that is there stays.
func forbidServices() (allow func(), err error) {
	f, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // a program
	if errors.Is(err, os.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keep packages from starting services: %w", err)
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("keep packages from starting services: %w", err), os.Remove(policyFile))
	}
	return func() { _ = os.Remove(policyFile) }, nil
}

// Package config turns YAML files into checked settings, and watches the files for changes.
package config

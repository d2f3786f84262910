package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// secretFields are where a configuration may hold a secret as it is, and where text stands that is shown. Each %s is a
// value.
var secretFields = []struct{ name, app, task, discover string }{
	{name: "URI of a webhook", task: `http: {url: "https://u:%s@h/x"}`},
	{name: "parameter of a URL", task: `http: {url: "https://h/x?a=b&api_key=%s&c=d"}`},
	{name: "header", task: `http: {url: "https://h", headers: {Authorization: "%s"}}`},
	{name: "header with a scheme", task: `http: {url: "https://h", headers: {authorization: "Bearer %s"}}`},
	{name: "header of an API key", task: `http: {url: "https://h", headers: {X-Api-Key: "%s"}}`},
	{name: "cookie", task: `http: {url: "https://h", headers: {Cookie: "sid=%s"}}`},
	{name: "text of a body", task: `http: {url: "https://h", body: '{"a": 1, "password": "%s"}'}`},
	{name: "form in a body", task: `http: {url: "https://h", body: 'grant=x&client_secret=%s&b=c'}`},
	{name: "object in a body", task: `http: {url: "https://h", json: {token: "%s"}}`},
	{name: "variable", task: `exec: {command: [a], env: {DB_PASSWORD: "%s"}}`},
	{name: "access key", task: `exec: {command: [a], env: {AWS_SECRET_ACCESS_KEY: "%s"}}`},
	{name: "connection string", task: `exec: {command: [a], env: {CONNECT: "host=h password=%s user=u"}}`},
	{name: "URI in a variable", task: `exec: {command: [a], env: {DATABASE_URL: "postgres://u:%s@h/d"}}`},
	{name: "option", task: `exec: {command: [a, "--token=%s"]}`},
	{name: "option and value", task: `exec: {command: [a, --db-password, "%s", b]}`},
	{name: "variable in a script", task: `exec: {command: [sh, -c, "PGPASSWORD=%s psql"]}`},
	{name: "header in a script", task: `exec: {command: [curl, -H, "Authorization: Bearer %s"]}`},
	{name: "application", app: `[a, "--api-key=%s", b]`},
	{name: "lister", discover: `http: {url: "https://h/?token=%s", headers: {X-Auth: "%s"}}`},
}

// Print shows no secret that stands in the files, in the fields of tasks, of templates and of the application.
func TestPrintShowsNoSecret(t *testing.T) {
	const value = "s3cr3t"
	for _, f := range secretFields {
		for _, place := range []string{"task", "template", "slots"} {
			if f.task == "" && place != "task" {
				continue
			}
			t.Run(f.name+"/"+place, func(t *testing.T) {
				filled := func(text string) string { return strings.ReplaceAll(text, "%s", value) }
				group := "tasks: [{name: a, exec: {command: [a]}}]"
				switch {
				case f.task != "" && place == "task":
					group = "tasks: [{name: a, " + filled(f.task) + "}]"
				case f.task != "" && place == "template":
					task := strings.Replace(filled(f.task), "[a, ", "[a, $(DISCOVERED_NAME), ", 1)
					group = "discover: {file: {path: /x}}\n    template: {" + task + "}"
				case f.task != "":
					group = "slots: 2\n    template: {" + filled(f.task) + "}"
				case f.discover != "":
					group = "discover: {" + filled(f.discover) + "}\n    template: {exec: {command: [a]}}"
				}
				text := "store: {uri: \"sqlite:a.db\"}\n"
				if f.app != "" {
					text += "app: {listen: \"unix:/run/a\", command: " + filled(f.app) + "}\n"
				}
				got := printed(t, load(t, text+"groups:\n  - name: g\n    "+group+"\n"))
				if strings.Contains(got, value) || !strings.Contains(got, "xxxxx") {
					t.Errorf("printed:\n%s", got)
				}
			})
		}
	}
}

// What is no secret is shown: names of files, ports, references, and options without a value.
func TestPrintShowsTheRest(t *testing.T) {
	shown := []string{
		"https://auth:8443/x?page=2", "/run/token", "info", "Bearer $(A)", "--no-password", "-v", "$(PASSWORD)",
		"application/json",
	}
	got := printed(t, load(t, fmt.Sprintf(`store: {uri: "sqlite:a.db"}
groups:
  - name: g
    tasks:
      - {name: a, http: {url: "%[1]s", headers: {Authorization: %[4]s, Content-Type: %[8]s}}}
      - {name: b, exec: {command: [x, %[5]s, %[6]s, --password, %[7]s], env: {LEVEL: %[3]s, TOKEN_FILE: %[2]s}}}
      - {name: c, http: {url: "%[1]s", tokenFile: %[2]s}}
`, shown[0], shown[1], shown[2], shown[3], shown[4], shown[5], shown[6], shown[7])))
	for _, text := range slices.Concat(shown, []string{"TOKEN_FILE: /run/token"}) {
		if !strings.Contains(got, text) {
			t.Errorf("no %s in\n%s", text, got)
		}
	}
	if strings.Contains(got, "xxxxx") {
		t.Errorf("something is hidden:\n%s", got)
	}
}

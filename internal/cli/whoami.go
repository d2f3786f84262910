package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/pkg/api"
)

// identity is as whom a replica takes this client.
type identity struct {
	Server string     `json:"server"`
	Name   string     `json:"name"` // of the token
	Role   api.Role   `json:"role"`
	Verbs  []api.Verb `json:"verbs"` // changes that the listener takes from it
}

func whoamiCommand(g *Globals) *cobra.Command {
	var output string
	cmd := finish(&cobra.Command{
		Use:   "whoami",
		Short: "Show which token and role a replica takes this client for, and what it may change",
		Long: `Show the name and the role of the token that this client sends, the replica that was asked, and the ` +
			`changes that its
listener takes. Without admin.tokensFile everybody on the machine is local, with the role admin. The listener
server.listen takes no changes from anyone.

Exit code 1: the replica does not know the token, or does not answer.`,
		Example: `  shardctl whoami
  shardctl whoami --server https://10.0.0.1:8081 --token-file /etc/shardctl/token -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("whoami takes no arguments")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := ParseOutput(output)
			if err != nil {
				return err
			}
			replica, err := g.Client(cmd.Context())
			if err != nil {
				return err
			}
			caller, err := replica.WhoAmI(cmd.Context())
			if err != nil {
				return g.explain(cmd, replica, err)
			}
			who := identity{replica.BaseURL(), caller.Name, caller.Role, filled(caller.Verbs)}
			out := cmd.OutOrStdout()
			if !o.Table() {
				return o.Write(out, who)
			}
			d := &description{sections: sections{w: out}, view: g.view(out)}
			who.show(d)
			return d.err
		},
	})
	g.AddFlags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", string(formatTable), OutputUsage)
	FixedWords(cmd, "output", "table", "json", "yaml", jsonpathPrefix)
	return cmd
}

func (i *identity) show(d *description) {
	verbs := make([]string, len(i.Verbs))
	for n, verb := range i.Verbs {
		verbs[n] = string(verb)
	}
	d.field("Server", plainText(i.Server))
	d.field("Name", plainText(first(i.Name, "no token was sent")))
	d.field("Role", plainText(string(i.Role)))
	d.field("Changes", plainText(first(strings.Join(verbs, ", "), "none")))
}

package config

import (
	"path/filepath"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/settings"
)

// maxSocket is how long the path of a socket may be, in bytes. The kernel takes 107, and a process number is added to
// it while it is made.
const maxSocket = 90

func (l settingsReader) app(n *decode.Node, is *settings.App) {
	listen, file, command, address := n.Get("listen"), n.Get("tokenFile"), n.Get("command"), n.Get("address")
	path, socket := strings.CutPrefix(is.Listen, "unix:")
	switch {
	case is.Listen == "":
		if len(is.Command) > 0 && !listen.IsBad() {
			l.AddAt(command.Place, "app.listen", "is required with command: unix:/PATH, or HOST:PORT on loopback")
		}
	case socket && (!filepath.IsAbs(path) || len(path) > maxSocket):
		l.Refuse(listen, "unix: and an absolute path of at most 90 bytes")
	case !socket && (!settings.IsAddress(is.Listen) || !settings.OnLoopback(is.Listen) ||
		strings.HasSuffix(is.Listen, ":0")):
		l.Refuse(listen, "unix:/PATH, or HOST:PORT on loopback with a port that is not 0")
	case !socket && is.TokenFile == "" && len(is.Command) == 0 && !file.IsBad():
		l.AddAt(listen.Place, "app.tokenFile",
			"is required, since app.listen is %s and any user of the machine reaches it: name a file with a token",
			listen.Quoted())
	}
	if is.TokenFile != "" && len(is.Command) > 0 {
		l.AddAt(file.Place, "app.tokenFile", "goes without command: the command gets a token of its own at each start")
	}
	if len(is.Command) > 0 && is.Command[0] == "" && !command.List()[0].IsBad() {
		l.AddAt(command.Place, "app.command", "begins with an empty text, must begin with a program")
	}
	if is.Address != "" && !settings.IsHostPort(is.Address) {
		l.Refuse(address, "HOST:PORT")
	}
}

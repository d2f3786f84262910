package mongo

import "github.com/shardctl/shardctl/pkg/store/internal/storeuri"

var secretParams = storeuri.Secrets{
	"authmechanismproperties", // AWS_SESSION_TOKEN
	"tlscertificatekeyfilepassword",
	"sslclientcertificatekeypassword",
	"proxypassword",
	"password",
}

// Redact returns a MongoDB URI that can be shown: passwords and other secrets are replaced by xxxxx. It takes URIs that
// are wrong as well, and then rather hides too much.
func Redact(uri string) string { return secretParams.Redact(uri) }

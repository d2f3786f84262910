package access

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Login is who connects.
type Login struct {
	User, Password string
	PasswordFile   string // its content is the password
}

// ParseLogin reads the fields user, password and passwordFile of n, which is nil where they are left out.
func ParseLogin(n *decode.Node, r *decode.Reader) Login {
	return Login{
		User:         r.Text(n.Get("user"), ""),
		Password:     r.Text(n.Get("password"), ""),
		PasswordFile: r.Text(n.Get("passwordFile"), ""),
	}
}

// ValidatePassword says whether the password is there twice.
func (l Login) ValidatePassword() []decode.FieldError {
	if l.Password == "" || l.PasswordFile == "" {
		return nil
	}
	return []decode.FieldError{{
		Path: []string{"passwordFile"}, Message: "is set together with password: use one of them",
	}}
}

// Validate is ValidatePassword, and says whether a user has no password.
func (l Login) Validate() []decode.FieldError {
	if l.User != "" && l.Password == "" && l.PasswordFile == "" {
		return []decode.FieldError{{Path: []string{"user"}, Message: "has no password: set password or passwordFile"}}
	}
	return l.ValidatePassword()
}

// ValidateUser says whether a password has no user.
func (l Login) ValidateUser() []decode.FieldError {
	switch {
	case l.User != "":
		return nil
	case l.Password != "":
		return []decode.FieldError{{Path: []string{"password"}, Message: "is set without user"}}
	case l.PasswordFile != "":
		return []decode.FieldError{{Path: []string{"passwordFile"}, Message: "is set without user"}}
	}
	return nil
}

// Print are the fields as they are written, without the password.
func (l Login) Print() decode.Fields {
	return decode.Pairs(
		"user", decode.TextOrNil(l.User),
		"password", decode.HiddenPassword(l.Password),
		"passwordFile", decode.TextOrNil(l.PasswordFile),
	)
}

// ReadPassword is the password, which is read from its file now where there is one. Call it for each connection. The
// fields hold no variables any more. Errors name the field, below the one given.
func (l Login) ReadPassword(below string) (string, error) {
	if l.PasswordFile == "" {
		return l.Password, nil
	}
	password, err := decode.ReadFile(l.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("%s.passwordFile: %w", below, err)
	}
	return password, nil
}

package manifest

// ServerSecrets are the values with stored secrets of one server: secret://NAME, alone or within a text.
type ServerSecrets struct {
	Env     map[string]string `toml:"env" json:"env,omitempty"`         // of type stdio: added to its environment
	Headers map[string]string `toml:"headers" json:"headers,omitempty"` // of the other types: sent with every request
}

// ToolText replaces texts in the descriptor of a tool, such as one of a server that somebody else has written.
type ToolText struct {
	Title       string `toml:"title" json:"title,omitempty"`
	Description string `toml:"description" json:"description,omitempty"`
	// members of MCP's tool annotations, each in place of the server's
	Annotations map[string]any `toml:"annotations" json:"annotations,omitempty"`
}

// ServerTables are tables about one server of a package each.
type ServerTables struct {
	Secrets map[string]ServerSecrets
	Tools   map[string]map[string]ToolText
}

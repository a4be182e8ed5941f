package status

// Skill is a skill in the folder of an extension, or one that an MCP server declares by itself.
type Skill struct {
	Extension   string `json:"extension,omitempty"` // "" in the status of the extension
	Name        string `json:"name"`
	Description string `json:"description"`
	URI         string `json:"uri"` // of its SKILL.md
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`              // of all files
	Held        string `json:"held,omitempty"`     // why it is held back from clients, and what to do; "" if it is served
	Declared    bool   `json:"declared,omitempty"` // by an MCP server, and not in the folder of the extension
}

package status

// Skill is a skill in the folder of an extension.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	URI         string `json:"uri"` // of its SKILL.md
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"`          // of all files
	Held        string `json:"held,omitempty"` // why it is held back from clients, and what to do; "" if it is served
}

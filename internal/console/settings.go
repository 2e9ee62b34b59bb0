package console

import (
	"net/http"
	"slices"
	"strings"

	"plantstore/internal/admin"
	"plantstore/internal/server"
)

// settingGroup is a table of the page of settings.
type settingGroup struct {
	ID, Title string
	Settings  []admin.Setting
}

// showSettings shows the settings that differ from the defaults, and then the others by group. Each setting is on the
// page once, because links have its name.
func (c *Console) showSettings(call *server.Call) error {
	changed, groups := settingGroup{ID: "changed", Title: "Changed"}, []settingGroup{}
	for _, s := range c.Operations.Settings() {
		i := slices.IndexFunc(groups, func(g settingGroup) bool { return g.Title == s.Group })
		switch {
		case s.Source != "default": // as the API describes it
			changed.Settings = append(changed.Settings, s)
		case i >= 0:
			groups[i].Settings = append(groups[i].Settings, s)
		default:
			id := "group-" + strings.ToLower(strings.ReplaceAll(s.Group, " ", "-"))
			groups = append(groups, settingGroup{id, s.Group, []admin.Setting{s}})
		}
	}
	slices.SortFunc(groups, func(a, b settingGroup) int { return strings.Compare(a.Title, b.Title) })
	content := append([]settingGroup{changed}, groups...)
	return c.render(call, http.StatusOK, "settings", view{Title: "Settings", Content: content})
}

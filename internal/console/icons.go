package console

import "html/template"

// icon returns an icon of 20 by 20 units. It is decoration beside a text, so screen readers omit it.
func icon(name string) template.HTML {
	return `<svg class="icon" viewBox="0 0 20 20" aria-hidden="true">` + icons[name] + `</svg>`
}

var icons = map[string]template.HTML{
	"leaf":     `<path d="M3 17C3 8 8 3 17 3c0 9-5 14-11 13M3 17c2-5 5-8 9-10"/>`,
	"overview": `<path d="M3 16V9m5 7V4m5 12v-6m4 6V7"/>`,
	"plants":   `<path d="M10 17V9m0 2c0-3-2-5-6-5 0 4 2 5 6 5zm0-2c0-3 2-6 6-6 0 4-2 6-6 6z"/>`,
	"import":   `<path d="M10 3v9m-4-4l4 4 4-4M3 13v4h14v-4"/>`,
	"key":      `<circle cx="6.5" cy="10" r="3.5"/><path d="M10 10h7v3m-3-3v2"/>`,
	"backups":  `<path d="M3 5h14v4H3zm1 4v7h12V9M8 12h4"/>`,
	"webhooks": `<path d="M3 10h10M9 5.5l4.5 4.5L9 14.5"/><circle cx="16" cy="10" r="1.5"/>`,
	"audit":    `<path d="M5 3h7l3 3v11H5zm3 6h4m-4 3h4"/>`,
	"settings": `<path d="M3 6h8m4 0h2M3 14h2m4 0h8"/><circle cx="13" cy="6" r="2"/><circle cx="7" cy="14" r="2"/>`,
	"api":      `<path d="M7 5l-4 5 4 5m6-10l4 5-4 5"/>`,
	"theme":    `<circle cx="10" cy="10" r="7"/><path d="M10 3v14a7 7 0 0 0 0-14z" fill="currentColor"/>`,
	"warning":  `<path d="M10 3l8 14H2zm0 5v4m0 2.5v.5"/>`,
}

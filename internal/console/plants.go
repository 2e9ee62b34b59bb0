package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/trace"
)

// plantsOnPage is the number of plants on a page, and of hits that a search without JavaScript shows.
const plantsOnPage = 50

// plantList is the content of the page of plants.
type plantList struct {
	admin.Page

	Name, Tag string // searched for; empty: all plants
	ID        string // as entered, if it is not an id
	Pager     pager
	End       *admin.SearchEnd
	AtLeast   bool // the search has ended before the last plant, so there may be more hits
	CanCreate bool
	Query     template.URL // the search as a query, for the links; html/template would escape a string again
	Total     string       // number of stored plants; empty: unknown
	Tags      []admin.TagCount
	LongIDs   bool // an id needs a wide column
}

// tags returns suggestions for a tag: the most frequent ones of the last count of the plants, and those of a page,
// whose numbers are unknown. It starts a count of its own only where that is as cheap as a few searches.
func (c *Console) tags(shown []plant.Record) []admin.TagCount {
	const tagsMax, countedMax, ageMax = 50, 1_000_000, 10 * time.Minute
	counts := c.Operations.LastCounts()
	if all := c.Operations.Gauges().Plants; all != nil && *all <= countedMax {
		counts, _, _ = c.Operations.Counts(ageMax) // an error means that the server ends
	}
	var list []admin.TagCount
	if counts != nil {
		list = slices.Clone(counts.Tags[:min(tagsMax, len(counts.Tags))])
	}
	for _, p := range shown {
		tag, _ := p.Tag.Get()
		same := func(known admin.TagCount) bool { return known.Tag == tag }
		if len(tag) <= admin.TagBytesMax && len(list) < 2*tagsMax && !slices.ContainsFunc(list, same) {
			list = append(list, admin.TagCount{Tag: tag})
		}
	}
	return slices.DeleteFunc(list, func(t admin.TagCount) bool { return t.Tag == "" })
}

func searchOf(r *http.Request) (q admin.SearchQuery, search bool) {
	values := r.URL.Query()
	q = admin.SearchQuery{Name: values.Get("name"), Cursor: cursorOf(r), Limit: plantsOnPage}
	if tag := values.Get("tag"); tag != "" {
		q.Tag = plant.Tagged(tag)
	}
	return q, q.Name != "" || q.Tag != plant.Tag{}
}

func (c *Console) showPlants(call *server.Call) error {
	var fault *plant.Error
	id := strings.TrimSpace(call.URL.Query().Get("id"))
	if id != "" {
		n, err := strconv.ParseInt(id, 10, 64)
		if err == nil {
			_, err = c.Operations.Plant(call.Context(), n)
		} else {
			err = plant.InvalidQuery("id must be a whole number such as 42; got %.100q", id)
		}
		refusal, ok := errors.AsType[*plant.Error](err)
		if err == nil || ok && refusal.Code.Status() >= http.StatusInternalServerError {
			redirect(call, "/plants/"+strconv.FormatInt(n, 10))
			return nil
		}
		if !ok {
			return err
		}
		fault = refusal
	}
	q, search := searchOf(call.Request)
	q.Ranked = search
	list := plantList{Name: q.Name, ID: id, CanCreate: call.Principal.Scopes.Has(auth.ScopeCreate)}
	list.Tag, _ = q.Tag.Get()
	list.Query = template.URL(url.Values{"name": {list.Name}, "tag": {list.Tag}}.Encode())
	all := c.Operations.Gauges().Plants
	if all != nil {
		list.Total = formatCount(float64(*all)) + " stored"
	}
	var err error
	if search {
		var end admin.SearchEnd
		end, err = c.Operations.Search(call.Context(), q, func(p admin.SearchProgress) error {
			if p.Again {
				list.Plants = nil
			}
			list.Plants = append(list.Plants, p.Hits...)
			return nil
		})
		list.End, list.Next, list.AtLeast = &end, end.Next, end.Reason != admin.Complete
	} else {
		list.Page, err = c.Operations.Plants(call.Context(), admin.PageQuery{Cursor: q.Cursor, Limit: plantsOnPage})
	}
	if err != nil {
		return err
	}
	list.Pager = newPager(call.Request, "plants", "/plants", len(list.Plants), list.Next)
	switch {
	case search && !list.AtLeast:
		list.Pager.All = list.End.Hits
	case !search && all != nil:
		list.Pager.All = *all
	}
	list.Tags = c.tags(list.Plants)
	list.LongIDs = slices.ContainsFunc(list.Plants, func(p plant.Record) bool {
		const digitsMax = 10
		return len(strconv.FormatInt(p.ID, 10)) > digitsMax
	})
	v := view{Title: "Plants", Content: list, Fault: fault}
	return c.render(call, v.status(), "plants", v)
}

// streamPlants streams a search for the script.
func (c *Console) streamPlants(call *server.Call) error {
	q, search := searchOf(call.Request)
	if !search {
		return plant.InvalidQuery("the search needs name or tag")
	}
	q.Ranked = true
	return c.api.SendSearch(call, q)
}

// plantPage is the content of the page of a plant.
type plantPage struct {
	plant.Record

	CanChange bool // the page has the forms that correct and erase it
	Another   bool // it was created in a form, which can create another one
}

func (c *Console) showPlant(call *server.Call, fault *plant.Error) error {
	record, err := c.plantOf(call)
	if err != nil {
		return err
	}
	id := strconv.FormatInt(record.ID, 10)
	another := call.URL.Query().Get("done") == "created" && call.Principal.Scopes.Has(auth.ScopeCreate)
	content := plantPage{record, call.Principal.Scopes.Has(auth.ScopeAdmin), another}
	v := view{Title: "Plant " + id, Address: "/plants/" + id, Content: content, Fault: fault}
	return c.render(call, v.status(), "plant", v)
}

// plantOf returns the plant in the path of a request.
func (c *Console) plantOf(call *server.Call) (plant.Record, error) {
	id, err := strconv.ParseInt(call.PathValue("id"), 10, 64)
	if err != nil {
		return plant.Record{}, plant.Errorf(plant.CodePlantNotFound, "the id of a plant is a whole number")
	}
	return c.Operations.Plant(call.Context(), id)
}

// newPlant is the content of the page that creates a plant.
type newPlant struct {
	ID, Name, Tag string
	HasTag        bool
	Body          string // the refused request; empty: none
	Fault         *plant.Error
	URL           string // where clients create plants
	Tags          []admin.TagCount
	Free          string // an id that no plant has, as far as it is known now; empty: none
	Used          string // the id that was free when the form was shown; empty: it still is, or was not used
}

func (c *Console) showNewPlant(call *server.Call) error {
	n := c.newPlant(call)
	n.ID = n.Free
	return c.render(call, http.StatusOK, "new-plant", view{Title: "New plant", Content: n})
}

// newPlant returns the content of an empty form. Only who may read plants learns of their ids and tags.
func (c *Console) newPlant(call *server.Call) newPlant {
	n := newPlant{URL: c.operationURL()}
	if call.Principal.Scopes.Has(auth.ScopeRead) {
		n.Tags = c.tags(nil)
		if free, err := c.Operations.FreeID(call.Context()); err == nil && free != 0 {
			n.Free = strconv.FormatInt(free, 10)
		}
	}
	return n
}

func (c *Console) operationURL() string { return c.PublicURL.JoinPath("plants").String() }

// createPlant creates a plant as the public operation does: with the body that a client would send, the same decoder
// and the same write path.
func (c *Console) createPlant(call *server.Call) error {
	n := newPlant{
		ID: strings.TrimSpace(call.Form.Get("id")), Name: call.Form.Get("name"), Tag: call.Form.Get("tag"),
		HasTag: call.Form.Has("has-tag"),
	}
	body := n.body()
	decoded, err := plant.Decode(body)
	replayed := false
	if err == nil {
		replayed, err = c.WritePath.Create(trace.FromContext(call.Context()), call.Principal, decoded)
	}
	if e, ok := errors.AsType[*plant.Error](err); ok {
		form := c.newPlant(call)
		n.Body, n.Fault, n.URL, n.Tags, n.Free = string(body), e, form.URL, form.Tags, form.Free
		taken := e.Code == plant.CodeDifferentName || e.Code == plant.CodeDifferentTag
		if taken && n.Free != "" && n.ID == call.Form.Get("free") {
			n.ID, n.Used, n.Fault = n.Free, n.ID, nil
		}
		return c.render(call, e.Code.Status(), "new-plant", view{Title: "New plant", Content: n})
	}
	if err != nil {
		return err
	}
	done := "created"
	if replayed {
		done = "replayed"
	}
	to := "/plants/new?done=" + done
	if call.Principal.Scopes.Has(auth.ScopeRead) {
		to = fmt.Sprintf("/plants/%d?done=%s", decoded.ID, done)
	}
	redirect(call, to)
	return nil
}

// body returns the body of the request. It contains the id as entered, so the decoder reports its error.
func (n newPlant) body() []byte {
	body := []byte(`{"id":`)
	if json.Valid([]byte(n.ID)) {
		body = append(body, n.ID...)
	} else {
		body = plant.AppendString(body, n.ID)
	}
	body = plant.AppendString(append(body, `,"name":`...), n.Name)
	if n.HasTag || n.Tag != "" {
		body = plant.AppendString(append(body, `,"tag":`...), n.Tag)
	}
	return append(body, '}')
}

// The types of a dashboard as a JSON file, from the schema that Grafana publishes. The test replaces SDK by the package of
// a version, and QUERY by its name of a query.
import type {Dashboard, Panel, RowPanel, FieldConfig, FieldConfigSource, AnnotationQuery, VariableModel} from "SDK/dashboard";
import type * as prometheus from "SDK/prometheus";
import type * as stat from "SDK/stat";
import type * as timeseries from "SDK/timeseries";

// A JSON file has the values of enums, and no methods.
type JSONOf<T> =
	T extends string ? `${T}` :
	T extends number ? (`${T}` extends `${infer N extends number}` ? N : never) :
	T extends (infer Item)[] ? JSONOf<Item>[] :
	T extends object ? {[Name in keyof T as T[Name] extends () => void ? never : Name]: JSONOf<T[Name]>} :
	T;

// The schema leaves options, custom fields and queries open, because they belong to plugins.
type PanelOf<Type extends string, Options, Custom> =
	Omit<Panel, "type" | "options" | "fieldConfig" | "targets"> & {
		type: Type;
		options: Options;
		fieldConfig: Omit<FieldConfigSource, "defaults"> & {defaults: Omit<FieldConfig, "custom"> & {custom?: Custom}};
		targets: prometheus.QUERY[];
	};
type AnyPanel =
	PanelOf<"stat", stat.Options, never> |
	PanelOf<"timeseries", timeseries.Options, timeseries.FieldConfig> |
	RowPanel;

// The editors of annotations and variables add members that the schema does not have.
type File = Omit<Dashboard, "panels" | "annotations" | "templating"> & {
	panels: AnyPanel[];
	annotations: {list: (AnnotationQuery & {titleFormat?: string; textFormat?: string; step?: string})[]};
	templating: {list: (VariableModel & {definition?: string})[]};
};
export type DashboardFile = JSONOf<File>;

/** A step from one version of the database's own tables to the next. What is released is never changed. */
export interface Migration {
  /** From 1, without gap. */
  readonly number: number;
  /** Statements; `schema` is quoted. */
  sql(schema: string): string;
}

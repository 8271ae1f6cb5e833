import { basename } from "node:path";
import ts from "typescript-5.9";

export const ENTRIES = [
  "index",
  "plugin",
  "store",
  "storage",
  "deploy",
  "testing",
  "a2a",
  "agui",
  "ai",
  "h3",
  "mcp",
  "postgres",
  "client",
  "client/react",
];

/** A type that a public signature mentions, and by what. */
export interface Mention {
  readonly type: string;
  readonly by: string;
  /** The package that declares it; `undefined` for the checked one. */
  readonly package?: string;
}

/** What people can name, and what they cannot, of the declaration files that a package's entries are. */
export interface PublicTypes {
  /** Names by entry. */
  readonly names: ReadonlyMap<string, readonly string[]>;
  /** Names that exist at run time. */
  readonly values: readonly string[];
  /** Names of classes that are exported as types alone. */
  readonly classes: readonly string[];
  /** Types of the package that people are handed and no entry exports. */
  readonly unnamed: readonly Mention[];
  /** Types that people are handed, and what has a name and parts of it. */
  readonly handed: readonly HandedType[];
  /** Types of other packages. */
  readonly foreign: readonly Mention[];
}

export interface HandedType {
  readonly name: string;
  readonly entry: string;
  /** How many type parameters it has. */
  readonly parameters: number;
  readonly members: readonly { readonly name: string; readonly isCalled: boolean }[];
}

/** Types that are reached otherwise than by a name of their own. */
export interface Reached {
  /** Interfaces from a name to a type: each type is reached as a member. */
  readonly maps: readonly string[];
  /** What people write, hand in, and are given back as it is. */
  readonly definitions: readonly string[];
}

/** Rows and logs of a store, and what hooks notify of; agents, plugins and platforms as their authors define them. */
export const REACHED: Reached = {
  maps: ["Tables", "Logs", "CoreHooks", "ServiceHooks"],
  definitions: ["AgentDefinition", "Plugin", "Platform", "RouteDefinition", "AddedRoute", "PluginCommand"],
};

/**
 * Walks the signatures that entries export; `folder` holds the package's declaration files. What people are handed must
 * have a name, as their own declarations mention it: results, members of results, what their callbacks get. What they
 * hand in, such as an object of options, is checked where they write it.
 */
export function readPublicTypes(
  entries: readonly string[],
  folder: string,
  { maps, definitions }: Reached = { maps: [], definitions: [] },
): PublicTypes {
  const program = ts.createProgram([...entries], {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    lib: ["lib.es2023.d.ts"],
    types: [],
    strict: true,
    skipLibCheck: true,
    noEmit: true,
    preserveSymlinks: true,
  });
  const checker = program.getTypeChecker();
  const resolve = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;

  const names = new Map<string, string[]>();
  const exported = new Map<ts.Symbol, { name: string; isValue: boolean }>();
  for (const entry of entries) {
    const file = program.getSourceFile(entry);
    const module = file && checker.getSymbolAtLocation(file);
    if (!module) throw new Error(`${entry} is no module`);
    const symbols = checker.getExportsOfModule(module);
    names.set(
      entry,
      symbols.map(({ name }) => name),
    );
    for (const symbol of symbols)
      exported.set(resolve(symbol), { name: symbol.name, isValue: !isTypeOnly(symbol) });
  }

  const unnamed = new Map<string, Mention>();
  const foreign = new Map<string, Mention>();
  const handed = new Set<ts.Symbol>();
  const taken = new Set<ts.Symbol>();
  const mentioned = new Set<ts.Symbol>();
  const later: [symbol: ts.Symbol, by: string][] = [];

  /** Walks what declares a type. What people hand in comes later: it may be what they were handed. */
  const visit = (symbol: ts.Symbol, by: string, isResult: boolean): void => {
    const isHanded = isResult && !definitions.includes(symbol.name);
    if (handed.has(symbol)) return;
    if (isHanded) walkAll(handed, symbol, by);
    else later.push([symbol, by]);
  };
  const walkAll = (seen: Set<ts.Symbol>, symbol: ts.Symbol, by: string): void => {
    seen.add(symbol);
    const { name, isValue } = exported.get(symbol) ?? { name: by, isValue: false };
    for (const declaration of symbol.declarations ?? []) {
      if (declaration.getSourceFile().fileName.startsWith(folder))
        walk(declaration, name, seen === handed, isValue);
    }
  };

  const note = (symbol: ts.Symbol, by: string, { isHanded, isMentioned }: Use): void => {
    const found = resolve(symbol);
    const place = found.declarations?.[0]?.getSourceFile().fileName;
    if (found.flags & ts.SymbolFlags.TypeParameter || place === undefined) return;
    const other = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(place)?.[1];
    if (other !== undefined && !place.startsWith(folder)) {
      foreign.set(`${other} ${found.name}`, { type: found.name, by, package: other });
      return;
    }
    if (isHanded && isMentioned) {
      mentioned.add(found);
      if (!exported.has(found)) unnamed.set(`${basename(place)} ${found.name}`, { type: found.name, by });
    }
    visit(found, by, isHanded);
  };

  const walk = (node: ts.Node, by: string, isHanded: boolean, isValue = false): void => {
    if (ts.isPrivateIdentifier(node) || isPrivate(node)) return;
    // What only a type is exported of, nobody constructs.
    if (ts.isConstructorDeclaration(node) && !isValue) return;
    if (ts.isInterfaceDeclaration(node) && maps.includes(node.name.text)) return;
    const name = nameIn(node);
    const symbol = name && checker.getSymbolAtLocation(name);
    // What a type extends, or is a member of, is not in what is written for it. One of several is named by what it has.
    const isMentioned = !ts.isExpressionWithTypeArguments(node) && !isOwner(node) && !isOneOf(node);
    if (symbol) note(symbol, by, { isHanded, isMentioned });
    ts.forEachChild(node, (child) => walk(child, by, isTurned(node, child) ? !isHanded : isHanded, isValue));
  };
  const roots = [...exported].sort(([, one], [, other]) => Number(other.isValue) - Number(one.isValue));
  for (const [symbol, { name, isValue }] of roots) if (isValue) visit(symbol, name, true);
  for (let next = later.shift(); next; next = later.shift())
    if (!handed.has(next[0]) && !taken.has(next[0])) walkAll(taken, ...next);
  for (const [symbol, { name }] of roots) if (!taken.has(symbol)) visit(symbol, name, true);
  const types = roots.filter(([, { isValue }]) => !isValue);
  const entryOf = (name: string) => [...names].find(([, exports]) => exports.includes(name))![0];
  const isOf = (symbol: ts.Symbol, flag: ts.SymbolFlags) => (symbol.flags & flag) !== 0;
  const all = [...exported].map(([symbol, { name, isValue }]) => ({ symbol, name, isValue }));
  const values = all.filter(({ symbol, isValue }) => isValue && isOf(symbol, ts.SymbolFlags.Value));
  const classes = all.filter(({ symbol, isValue }) => !isValue && isOf(symbol, ts.SymbolFlags.Class));
  const named = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name);
  return {
    names,
    values: named(values),
    classes: named(classes),
    unnamed: [...unnamed.values()],
    handed: types
      .filter(([symbol]) => handed.has(symbol) && mentioned.has(symbol) && !maps.includes(symbol.name))
      .map(([symbol, { name }]) => {
        const type = checker.getDeclaredTypeOfSymbol(symbol);
        const parameters = (type.aliasTypeArguments ?? (type as ts.InterfaceType).typeParameters ?? [])
          .length;
        const members = checker.getPropertiesOfType(type).map((member) => {
          const one = checker.getNonNullableType(checker.getTypeOfSymbol(member));
          return { name: member.name, isCalled: one.getCallSignatures().length > 0 };
        });
        return { name, entry: entryOf(name), parameters, members };
      }),
    foreign: [...foreign.values()],
  };
}

interface Use {
  readonly isHanded: boolean;
  /** Whether its name is in what TypeScript writes for the type around it. */
  readonly isMentioned: boolean;
}

/** Whether people hand in what `node` gives them, or the other way round: parameters, and what a type must fit. */
function isTurned(node: ts.Node, child: ts.Node): boolean {
  if (ts.isTypeParameterDeclaration(node)) return child === node.constraint;
  return ts.isFunctionLike(node) && ts.isParameter(child);
}

/** Whether a type only has the member that is meant. */
function isOwner(node: ts.Node): boolean {
  return ts.isIndexedAccessTypeNode(node.parent) && node.parent.objectType === node;
}

/** Whether a type is one of those that a named type can be. */
function isOneOf({ parent }: ts.Node): boolean {
  return ts.isUnionTypeNode(parent) && ts.isTypeAliasDeclaration(parent.parent);
}

/** The name of the type that a node refers to. `typeof` refers to a value, such as a schema that a type is made from. */
function nameIn(node: ts.Node): ts.Node | undefined {
  if (ts.isTypeReferenceNode(node)) return lastOf(node.typeName);
  if (ts.isImportTypeNode(node)) return node.qualifier && lastOf(node.qualifier);
  return ts.isExpressionWithTypeArguments(node) ? node.expression : undefined;
}

function lastOf(name: ts.EntityName): ts.Node {
  return ts.isQualifiedName(name) ? name.right : name;
}

function isPrivate(node: ts.Node): boolean {
  return (
    ts.canHaveModifiers(node) &&
    (ts.getModifiers(node) ?? []).some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword)
  );
}

/** Whether an entry exports a name as a type alone. */
function isTypeOnly(symbol: ts.Symbol): boolean {
  const [declaration] = symbol.declarations ?? [];
  if (!declaration) return false;
  if (ts.isExportSpecifier(declaration))
    return declaration.isTypeOnly || declaration.parent.parent.isTypeOnly;
  return ts.isInterfaceDeclaration(declaration) || ts.isTypeAliasDeclaration(declaration);
}

"""The JDBC driver, unmodified, and every method of its DatabaseMetaData."""
import re, shutil, subprocess, uuid
import pytest
from conftest import maven_jar

# What the driver itself says of methods that it has not, whatever the server says.
DRIVERS_OWN = "java.lang.RuntimeException: todo: implement this method"


@pytest.fixture(scope="module")
def walk(address, tmp_path_factory):
    if not shutil.which("javac"):
        pytest.skip("no JDK on this machine")
    jar = maven_jar("org.apache.arrow", "flight-sql-jdbc-driver", "18.3.0")
    classes = tmp_path_factory.mktemp("classes")
    subprocess.check_call(["javac", "-d", str(classes), str(__file__).replace("test_jdbc.py", "Walk.java")])
    host, port = address.rsplit(":", 1)
    name = "j" + uuid.uuid4().hex[:8]
    done = subprocess.run(["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", f"{jar}:{classes}", "Walk", host, port, name],
                          capture_output=True, text=True, timeout=300)
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(OK|ERR) (\S+) ?(.*)", line)
        if match:
            found[match.group(2)] = (match.group(1), match.group(3).replace(name, "T"))
    assert "drop" in found, done.stdout[-2000:] + done.stderr[-2000:]
    return found


@pytest.mark.parametrize("name, expected", [
    ("create", "0"), ("insert", "2"), ("query", "1,x,1.25;2,null,null"), ("prepared_insert", "1 [2]"), ("error", "true"),
    ("types", "1,2,1.5,2.5,text,true,2024-02-29,2024-02-29 12:34:56.0,1.25,null"), ("many_rows", "1000000"),
    ("labels", "first INTEGER b VARCHAR"), ("valid", "true"), ("drop", "0")])
def test_statements(walk, name, expected):
    assert walk[name] == ("OK", expected)


def test_prepared_query_has_the_type_of_the_column(walk):
    assert walk["prepared_query"] == ("OK", "Int(32, true) z batch ")


# What each method that asks the server has to say, by JDBC's words for it and Flight SQL's numbers; a pattern where a list of
# names is meant. Where the driver reads a number in its own way, the reason stands beside.
SPECIFIED = {
    "dataDefinitionCausesTransactionCommit/0": "false", "dataDefinitionIgnoredInTransactions/0": "false",  # CREATE is a part of it
    "doesMaxRowSizeIncludeBlobs/0": "false", "getCatalogTerm/0": "catalog", "getCatalogs/0": "spark_catalog",
    "getColumns/4": r"spark_catalog,default,T,a,4,INTEGER,10,.*,1,YES,.*;spark_catalog,default,T,b,12,VARCHAR,.*,2,YES,.*;"
                    r"spark_catalog,default,T,d,3,DECIMAL\(10, 2\),10,null,2,10,1,.*,3,YES,.*",
    "getConnection/0": r"org\.apache\.arrow\.driver\.jdbc\.ArrowFlightConnection@.*", "getCrossReference/6": "",
    "getDatabaseProductName/0": "Trunnion", "getDatabaseProductVersion/0": r"\d+\.\d+\.\d+",
    "getDefaultTransactionIsolation/0": "4",  # SQL_TRANSACTION_SERIALIZABLE, which the driver gives on as it is
    "getExportedKeys/3": "", "getExtraNameCharacters/0": "", "getIdentifierQuoteString/0": '"', "getImportedKeys/3": "",
    "getMaxStatementLength/0": "16777216", "getMaxStatements/0": "10000",
    "getNumericFunctions/0": "(.*, )?abs, .*sqrt.*", "getPrimaryKeys/3": "spark_catalog,default,T,a,1,null",
    "getProcedureTerm/0": "procedure", "getSQLKeywords/0": "(.*, )?QUALIFY, .*", "getSchemaTerm/0": "schema",
    "getSchemas/2": "(.*;)?default,spark_catalog(;.*)?", "getSearchStringEscape/0": r"\\",
    "getStringFunctions/0": "(.*, )?lower, .*", "getSystemFunctions/0": "(.*, )?coalesce, .*",
    "getTableTypes/0": "LOCAL TEMPORARY;TABLE;VIEW", "getTables/4": "(.*;)?spark_catalog,default,T,TABLE,null,.*",
    "getTimeDateFunctions/0": "(.*, )?now, .*", "isCatalogAtStart/0": "true", "isReadOnly/0": "false",
    "locatorsUpdateCopy/0": "false", "nullPlusNonNullIsNull/0": "true",
    "supportsANSI92EntryLevelSQL/0": "true", "supportsANSI92FullSQL/0": "false",
    "supportsANSI92IntermediateSQL/0": "true",  # the driver asks for entry level or intermediate
    "supportsBatchUpdates/0": "true", "supportsCatalogsInIndexDefinitions/0": "false",
    "supportsCatalogsInPrivilegeDefinitions/0": "false", "supportsColumnAliasing/0": "true", "supportsConvert/0": "true",
    "supportsConvert/2": "true",  # INTEGER to VARCHAR
    "supportsCoreSQLGrammar/0": "true", "supportsCorrelatedSubqueries/0": "true", "supportsDifferentTableCorrelationNames/0": "false",
    "supportsExpressionsInOrderBy/0": "true", "supportsExtendedSQLGrammar/0": "true", "supportsFullOuterJoins/0": "true",
    "supportsGroupBy/0": "true", "supportsGroupByUnrelated/0": "true", "supportsIntegrityEnhancementFacility/0": "false",
    "supportsLikeEscapeClause/0": "true", "supportsLimitedOuterJoins/0": "true", "supportsMinimumSQLGrammar/0": "true",
    "supportsNamedParameters/0": "false",  # of callable statements, and there is nothing to call
    "supportsNonNullableColumns/0": "true", "supportsOrderByUnrelated/0": "true", "supportsOuterJoins/0": "true",
    "supportsPositionedDelete/0": "false", "supportsPositionedUpdate/0": "false",
    "supportsResultSetType/1": "true",  # FORWARD_ONLY
    "supportsSavepoints/0": "true", "supportsSchemasInIndexDefinitions/0": "false",
    "supportsSchemasInPrivilegeDefinitions/0": "false", "supportsSchemasInProcedureCalls/0": "false",
    "supportsSelectForUpdate/0": "false",  # FOR UPDATE is read, but nothing is locked
    "supportsStoredFunctionsUsingCallSyntax/0": "false", "supportsStoredProcedures/0": "false",
    "supportsSubqueriesInComparisons/0": "true", "supportsSubqueriesInExists/0": "true", "supportsSubqueriesInIns/0": "true",
    "supportsSubqueriesInQuantifieds/0": "true", "supportsTableCorrelationNames/0": "true",
    "supportsTransactionIsolationLevel/1": "true",  # SERIALIZABLE
    "supportsTransactions/0": "true", "supportsUnion/0": "true", "supportsUnionAll/0": "true"}
# Sizes without a limit of their own: JDBC's word for that is 0.
SPECIFIED.update({f"getMax{what}/0": "0" for what in (
    "BinaryLiteralLength CatalogNameLength CharLiteralLength ColumnNameLength ColumnsInGroupBy ColumnsInIndex ColumnsInOrderBy "
    "ColumnsInSelect ColumnsInTable Connections CursorNameLength IndexLength ProcedureNameLength RowSize SchemaNameLength "
    "TableNameLength TablesInSelect UserNameLength").split()})


def test_every_method_that_asks_the_server_says_what_is_specified(walk):
    asked = {name[5:].split("@")[0]: what for name, what in walk.items() if name.endswith("@ArrowDatabaseMetadata")}
    assert set(asked) == set(SPECIFIED)
    wrong = {name: what for name, what in asked.items() if what[0] != "OK" or not re.fullmatch(SPECIFIED[name], what[1])}
    assert not wrong


def test_the_others_are_answered_by_the_driver_alone(walk):
    """Constants of Avatica, below the driver: no server has a say in them; some it has not written."""
    own = {name: what for name, what in walk.items() if name.startswith("meta.") and not name.endswith("@ArrowDatabaseMetadata")}
    assert {name.split("@")[1] for name in own} == {"AvaticaDatabaseMetaData", "DatabaseMetaData"}  # and JDBC's defaults
    wrong = {name: what for name, what in own.items() if what[0] == "ERR" and what[1] != DRIVERS_OWN}
    assert not wrong
    assert len(own) + len(SPECIFIED) > 170  # all of the interface


@pytest.mark.parametrize("claim, text", [
    ("supportsColumnAliasing/0", "SELECT 1 AS a"), ("supportsCorrelatedSubqueries/0", "SELECT a FROM T x WHERE a = (SELECT max(y.a) FROM T y WHERE y.b = x.b)"),
    ("supportsExpressionsInOrderBy/0", "SELECT a FROM T ORDER BY a * 2"), ("supportsFullOuterJoins/0", "SELECT 1 FROM T x FULL OUTER JOIN T y ON x.a = y.a"),
    ("supportsGroupByUnrelated/0", "SELECT count(*) FROM T GROUP BY b"), ("supportsLikeEscapeClause/0", "SELECT a FROM T WHERE b LIKE 'x!%' ESCAPE '!'"),
    ("supportsOrderByUnrelated/0", "SELECT a FROM T ORDER BY b"),
    ("supportsSubqueriesInComparisons/0", "SELECT a FROM T WHERE a > (SELECT 1)"), ("supportsSubqueriesInExists/0", "SELECT a FROM T x WHERE EXISTS (SELECT 1 FROM T y WHERE y.a = x.a)"),
    ("supportsSubqueriesInIns/0", "SELECT a FROM T WHERE a IN (SELECT a FROM T)"), ("supportsSubqueriesInQuantifieds/0", "SELECT a FROM T WHERE a > ALL (SELECT a FROM T)"),
    ("supportsTableCorrelationNames/0", "SELECT x.a FROM T AS x"), ("supportsUnion/0", "SELECT 1 AS a UNION SELECT 2"),
    ("supportsUnionAll/0", "SELECT 1 AS a UNION ALL SELECT 1"), ("supportsStoredProcedures/0", "CALL p()")])
def test_what_is_claimed_can_be_done(walk, connect, claim, text):
    name = "claimed" + uuid.uuid4().hex[:6]
    with connect().cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} (a BIGINT, b VARCHAR)")
        try:
            cursor.execute(re.sub(r"\bT\b", name, text))
            cursor.fetchall()
            can = "true"
        except Exception:
            can = "false"
        cursor.execute(f"DROP TABLE {name}")
    assert walk[f"meta.{claim}@ArrowDatabaseMetadata"] == ("OK", can)


def test_keys_and_patterns(walk):
    key = "spark_catalog,default,T,a,spark_catalog,default,T_k,r,1,null,null,3,3,null"  # no action, not deferrable: no word for it
    assert [walk[name] for name in ("imported", "exported", "cross")] == [("OK", key)] * 3
    assert walk["only_views"] == ("OK", "spark_catalog,default,T_v,VIEW,null,null,null,null,null,null")
    assert walk["by_pattern"] == ("OK", "spark_catalog,default,T_k,TABLE,null,null,null,null,null,null")  # "\\_" is a plain one

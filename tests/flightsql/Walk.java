// Drives the Arrow Flight SQL JDBC driver as tools do. usage: java -cp DRIVER.jar:DIR Walk HOST PORT TABLE
// Prints one line per check: "OK name value" or "ERR name why"; of methods of DatabaseMetaData the name has the class that answers
// behind '@': ArrowDatabaseMetadata asks the server, AvaticaDatabaseMetaData does not.
import java.lang.reflect.Method;
import java.sql.*;
import java.util.*;

public class Walk {
  interface Check { Object run() throws Exception; }

  static void check(String name, Check check) {
    try {
      System.out.println("OK " + name + " " + String.valueOf(check.run()).replace('\n', ' '));
    } catch (Throwable e) {
      Throwable cause = e.getCause() != null && e instanceof java.lang.reflect.InvocationTargetException ? e.getCause() : e;
      System.out.println("ERR " + name + " " + cause.toString().replace('\n', ' '));
    }
  }

  static String rows(ResultSet result) throws SQLException {
    if (result == null) return "null";
    StringBuilder out = new StringBuilder();
    int columns = result.getMetaData().getColumnCount();
    while (result.next()) {
      if (out.length() > 0) out.append(';');
      for (int i = 1; i <= columns; i++) out.append(i > 1 ? "," : "").append(result.getObject(i));
    }
    result.close();
    return out.toString();
  }

  static Object argument(Class<?> type, Class<?> whole, String table, int index, String method) {
    if (type == String.class) {
      if (method.equals("getTables") && index == 2) return "%";
      if (method.equals("getColumns")) return index < 2 ? null : "%";
      if (method.contains("Keys") || method.equals("getCrossReference")) return index % 3 == 2 ? table : null;
      return null;
    }
    if (type == int.class && method.equals("supportsTransactionIsolationLevel")) return Connection.TRANSACTION_SERIALIZABLE;
    if (type == int.class && method.equals("supportsConvert")) return index == 0 ? Types.INTEGER : Types.VARCHAR;
    if (type == int.class && method.equals("supportsResultSetConcurrency") && index == 1) return ResultSet.CONCUR_READ_ONLY;
    if (type == int.class) return ResultSet.TYPE_FORWARD_ONLY;
    if (type == boolean.class) return true;
    return null;
  }

  public static void main(String[] a) throws Exception {
    String table = a[2];
    Connection c = DriverManager.getConnection("jdbc:arrow-flight-sql://" + a[0] + ":" + a[1] + "/?useEncryption=false");
    Statement s = c.createStatement();
    check("create", () -> s.executeUpdate("CREATE TABLE " + table + " (a INT, b VARCHAR, d DECIMAL(10, 2), PRIMARY KEY (a))"));
    check("insert", () -> s.executeUpdate("INSERT INTO " + table + " VALUES (1, 'x', 1.25), (2, NULL, NULL)"));
    check("query", () -> rows(s.executeQuery("SELECT a, b, d FROM " + table + " ORDER BY a")));
    check("prepared_insert", () -> {
      PreparedStatement p = c.prepareStatement("INSERT INTO " + table + " (a, b) VALUES (?, ?)");
      p.setInt(1, 3);
      p.setString(2, "z");
      int n = p.executeUpdate();
      for (int i = 4; i < 6; i++) {
        p.setInt(1, i);
        p.setString(2, "batch");
        p.addBatch();
      }
      return n + " " + Arrays.toString(p.executeBatch());
    });
    check("prepared_query", () -> {
      PreparedStatement p = c.prepareStatement("SELECT b FROM " + table + " WHERE a = ?");
      StringBuilder out = new StringBuilder();
      for (int i = 3; i < 5; i++) {
        p.setInt(1, i);
        out.append(rows(p.executeQuery())).append(' ');
      }
      return p.getParameterMetaData().getParameterTypeName(1) + " " + out;
    });
    check("types", () -> rows(s.executeQuery(
        "SELECT CAST(1 AS SMALLINT), CAST(2 AS BIGINT), CAST(1.5 AS REAL), CAST(2.5 AS DOUBLE), 'text', TRUE, CAST('2024-02-29' AS DATE), "
            + "CAST('2024-02-29 12:34:56' AS TIMESTAMP), CAST(1.25 AS DECIMAL(10, 2)), CAST(NULL AS INT)")));
    check("labels", () -> {
      ResultSetMetaData m = s.executeQuery("SELECT a AS first, b FROM " + table).getMetaData();
      return m.getColumnLabel(1) + " " + m.getColumnTypeName(1) + " " + m.getColumnLabel(2) + " " + m.getColumnTypeName(2);
    });
    check("many_rows", () -> {
      ResultSet r = s.executeQuery("SELECT count(*) FROM (SELECT * FROM generate_series(1, 1000000))");
      return rows(r);
    });
    check("execute", () -> s.execute("SELECT 1") + " " + s.execute("DELETE FROM " + table + " WHERE a > 100") );
    check("error", () -> {
      try {
        s.executeQuery("SELECT * FROM no_such_table_zz");
      } catch (SQLException e) {
        return e.getMessage().contains("no_such_table_zz");
      }
      return false;
    });
    DatabaseMetaData meta = c.getMetaData();
    Method[] methods = DatabaseMetaData.class.getMethods();
    Arrays.sort(methods, Comparator.comparing(Method::getName).thenComparing(m -> m.getParameterCount()));
    for (Method m : methods) {
      if (m.getDeclaringClass() != DatabaseMetaData.class) continue;
      Object[] arguments = new Object[m.getParameterCount()];
      for (int i = 0; i < arguments.length; i++)
        arguments[i] = argument(m.getParameterTypes()[i], DatabaseMetaData.class, table, i, m.getName());
      String answers = meta.getClass().getMethod(m.getName(), m.getParameterTypes()).getDeclaringClass().getSimpleName();
      check("meta." + m.getName() + "/" + arguments.length + "@" + answers, () -> {
        Object value = m.invoke(meta, arguments);
        return value instanceof ResultSet ? rows((ResultSet) value) : value;
      });
    }
    check("keys", () -> s.executeUpdate("CREATE TABLE " + table + "_k (k INT, r INT, FOREIGN KEY (r) REFERENCES " + table + " (a))"));
    check("imported", () -> rows(meta.getImportedKeys(null, null, table + "_k")));
    check("exported", () -> rows(meta.getExportedKeys(null, null, table)));
    check("cross", () -> rows(meta.getCrossReference(null, null, table, null, null, table + "_k")));
    check("views", () -> s.executeUpdate("CREATE VIEW " + table + "_v AS SELECT a FROM " + table));
    check("only_views", () -> rows(meta.getTables(null, null, table + "%", new String[] {"VIEW"})));
    check("by_pattern", () -> rows(meta.getTables(null, "def%", table + "\\_k", null)));
    check("drop_views", () -> s.executeUpdate("DROP VIEW " + table + "_v"));
    check("drop_keys", () -> s.executeUpdate("DROP TABLE " + table + "_k"));
    check("valid", () -> c.isValid(5));
    check("drop", () -> s.executeUpdate("DROP TABLE " + table));
    c.close();
    System.exit(0);
  }
}
